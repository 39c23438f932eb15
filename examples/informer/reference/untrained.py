"""The reference as a training from scratch begins it: for ``initial.toml``."""

from informer.model import Informer


def build_model():
    return Informer()
