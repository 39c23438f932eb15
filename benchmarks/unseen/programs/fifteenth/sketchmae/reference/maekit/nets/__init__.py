from .mae import MaskedAutoencoder

__all__ = ["MaskedAutoencoder"]
