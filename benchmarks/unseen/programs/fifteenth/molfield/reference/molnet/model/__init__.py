from .network import MolNet

__all__ = ["MolNet"]
