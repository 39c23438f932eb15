from .resnet1d import NETS


def make_net(name, **kwargs):
    try:
        cls = NETS[name]
    except KeyError:
        raise ValueError(f"unknown network {name!r}, have {sorted(NETS)}") from None
    return cls(**kwargs)
