from .anisotropic import VolumeNet

__all__ = ["VolumeNet"]
