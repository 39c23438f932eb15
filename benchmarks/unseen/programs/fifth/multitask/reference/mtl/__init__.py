from . import losses, modules, optim  # noqa: F401  (registration)
