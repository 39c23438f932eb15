"""What layers hold, under neutral names and in a neutral layout.

How a framework lays it out is in its profile.

Every tensor has a *neutral* kind, leaf and layout, in which both sides are compared. Layouts go by the kind of the layer,
never by shapes: a square matrix looks the same either way.
"""

from __future__ import annotations

from paralign.adapters.profile import profile_of

#: layer classes in lower case -> neutral kind, where that is not the class name in lower case itself; '' for mere containers
KINDS = {
    "parameterlist": "",
    "parameterdict": "",
    "nondynamicallyquantizablelinear": "linear",
    "simplernn": "rnn",
    "simplernncell": "rnncell",
    "conv1dtranspose": "convtranspose1d",
    "conv2dtranspose": "convtranspose2d",
    "conv3dtranspose": "convtranspose3d",
    "batchnorm1d": "batchnorm",
    "batchnorm2d": "batchnorm",
    "batchnorm3d": "batchnorm",
    "syncbatchnorm": "batchnorm",
    "instancenorm1d": "instancenorm",
    "instancenorm2d": "instancenorm",
    "instancenorm3d": "instancenorm",
}

#: leaf names -> neutral leaf, whatever the layer: ports of custom norms keep these names as well
LEAVES = {"running_mean": "_mean", "running_var": "_variance"}

#: (neutral kind, leaf) -> neutral leaf
LAYER_LEAVES = {
    ("instancenorm", "scale"): "weight",
    ("prelu", "_weight"): "weight",
    ("lstmcell", "weight_ho"): "weight_hr",
    ("lstm", "weight_ho"): "weight_hr",
}

#: recurrent layer -> the layer of one of its steps
CELLS = {"lstm": "lstmcell", "gru": "grucell", "rnn": "rnncell"}

#: part of a PyTorch parametrisation -> what older versions and Paddle add to the name of the leaf that is parametrised
PARAMETRISATIONS = {"original0": "_g", "original1": "_v", "original": "_orig"}

#: leaves that only count calls and that the other framework need not have
COUNTERS = frozenset({"num_batches_tracked"})


def layer(kind: str) -> str:
    """The neutral kind of a framework's layer class; '' for a layer of the user's own.

    >>> layer("Conv2d") == layer("Conv2D"), layer("RNN") == layer("SimpleRNN"), layer("SyncBatchNorm")
    (True, True, 'batchnorm')
    """
    return KINDS.get(kind.lower(), kind.lower())


def neutral_leaf(kind: str, leaf: str) -> str:
    """The neutral leaf name of a tensor in a layer of a neutral kind.

    >>> neutral_leaf("batchnorm", "running_var"), neutral_leaf("instancenorm", "scale"), neutral_leaf("", "scale")
    ('_variance', 'weight', 'scale')
    """
    return LAYER_LEAVES.get((kind, leaf)) or LEAVES.get(leaf, leaf)


def layout(framework: str, kind: str, leaf: str, rank: int) -> tuple[int, ...]:
    """The axes of the neutral layout in the order in which the framework has them.

    >>> layout("paddle", "linear", "weight", 2), layout("paddle", "linear", "bias", 1)
    ((1, 0), (0,))
    """
    axes = profile_of(framework).layouts.get((kind, leaf))
    if axes is not None and len(axes) == rank:
        return axes
    return tuple(range(rank))
