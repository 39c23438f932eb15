"""Settings, the register of parts, and layers as PyTorch starts them."""
import configparser
import pathlib

from paddle import nn
from paddle.nn import initializer as I

_PARTS = {}


def part(path):
    """Decorator: `path` is what settings.ini calls the part, with its kind before the slash."""
    def put(obj):
        assert path not in _PARTS, path
        _PARTS[path] = obj
        return obj
    return put


def make(path, *positional, **named):
    try:
        maker = _PARTS[path]
    except KeyError:
        raise KeyError(f"{path!r} is none of {', '.join(sorted(_PARTS))}") from None
    return maker(*positional, **named)


def _value(text):
    for cast in (int, float):
        try:
            return cast(text)
        except ValueError:
            pass
    return text


def read_settings(name="settings.ini"):
    ini = configparser.ConfigParser()
    ini.read(pathlib.Path(__file__).with_name(name))
    return {s: {k: _value(v) for k, v in ini[s].items()} for s in ini.sections()}


def dense(n_in, n_out, weight=None, bias=None):
    """A Linear that begins as torch.nn.Linear does, unless told otherwise."""
    edge = n_in ** -0.5
    usual = I.Uniform(-edge, edge)
    return nn.Linear(n_in, n_out, weight_attr=weight or usual, bias_attr=usual if bias is None else bias)
