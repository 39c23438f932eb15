"""JAX for paralign: plain functions with trees of parameters, and flax.nnx. Found by the entry points of the package."""
