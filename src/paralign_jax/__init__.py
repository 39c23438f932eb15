"""JAX for paralign: plain functions with trees of parameters, and flax.nnx.

Entry points of the package lead to it.
"""
