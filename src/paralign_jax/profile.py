"""What paralign's own process has to know of JAX and flax.nnx; imports neither."""

from __future__ import annotations

from paralign.adapters.profile import Profile

#: flax keeps kernels as [in, out] and [places…, in, out]; running statistics are of the biased variance (flax 0.12)
PROFILE = Profile(
    "jax",
    layouts={
        ("linear", "weight"): (1, 0),
        ("conv1d", "weight"): (2, 1, 0),
        ("conv2d", "weight"): (2, 3, 1, 0),
        ("conv3d", "weight"): (2, 3, 4, 1, 0),
    },
    momentum_keeps_old=True,
    unbiased_variance=False,
    gpu_build="pip install 'jax[cuda12]'",
    deterministic="set XLA_FLAGS=--xla_gpu_deterministic_ops=true",
    not_tuned="set XLA_FLAGS=--xla_gpu_autotune_level=0",
)
