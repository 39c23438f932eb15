"""What is known of PyTorch without importing it."""

from __future__ import annotations

from paralign.adapters.profile import Profile

PROFILE = Profile(
    "torch",
    unbiased_variance=True,
    launcher="torchrun",
    initialisers="torch.nn.init",
    distributions={"cpu": "torch", "gpu": "torch"},
    gpu_build="install the CUDA build: https://pytorch.org/get-started/locally",
    deterministic="torch.backends.cudnn.deterministic = True in the side's module",
    switches=(("layernorm", "elementwise_affine"), ("rmsnorm", "elementwise_affine"), ("norm", "affine"), ("", "{leaf}")),
    not_tuned="torch.backends.cudnn.benchmark = False in the side's module",
)
