"""The initialisers against PyTorch's: exact where nothing is random, the same distribution where something is.

Two samples are held to be of one distribution when their means, spreads, extremes (of bounded families) and empirical distribution
functions agree as well as chance allows. Seeds are fixed. What must differ is put through the same check.
"""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paralign import init
from paralign.init.fans import GAINS, LINEAR, fans

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

BOUNDED = ("uniform_", "kaiming_uniform_", "xavier_uniform_")


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def paddle():
    module = pytest.importorskip("paddle")
    module.set_device("cpu")
    return module


def kolmogorov_smirnov(first, second):
    """The greatest distance of two empirical distribution functions, times what makes it comparable over sizes."""
    points = np.sort(np.concatenate([first, second]))
    shares = [np.searchsorted(np.sort(sample), points, side="right") / len(sample) for sample in (first, second)]
    return np.abs(shares[0] - shares[1]).max() * math.sqrt(len(first) * len(second) / (len(first) + len(second)))


def differences(ours, theirs, bounded=False):
    """In what two samples differ more than chance allows (about once in a thousand)."""
    ours, theirs = (np.asarray(sample, np.float64).ravel() for sample in (ours, theirs))
    assert ours.size == theirs.size
    if theirs.min() == theirs.max():
        return [] if (ours == theirs).all() else ["constant"]
    found = []
    size, spread = ours.size, theirs.std()
    if abs(ours.mean() - theirs.mean()) > 4 * spread * math.sqrt(2 / size):
        found.append("mean")
    peaked = float((((theirs - theirs.mean()) / spread) ** 4).mean())
    if abs(ours.var() / theirs.var() - 1) > 4 * math.sqrt(2 * (peaked - 1) / size):
        found.append("spread")
    if kolmogorov_smirnov(ours, theirs) > 1.95:
        found.append("distribution")
    gap = 10 * (theirs.max() - theirs.min()) / size
    if bounded and (abs(ours.min() - theirs.min()) > gap or abs(ours.max() - theirs.max()) > gap):
        found.append("bounds")
    return found


# the check itself


@pytest.mark.parametrize(("change", "found"), [
    (lambda x: x, []),
    (lambda x: x + 0.03, ["mean", "distribution", "bounds"]),
    (lambda x: 0.5 + (x - 0.5) * 1.03, ["spread", "bounds"]),
    (lambda x: np.random.default_rng(2).normal(x.mean(), x.std(), x.size), ["distribution", "bounds"]),
    (np.ones_like, ["mean", "spread", "distribution", "bounds"]),
])  # fmt: skip
def test_the_check_can_fail(change, found):
    first, second = np.random.default_rng(0).random(20_000), np.random.default_rng(1).random(20_000)
    assert differences(change(first), second, bounded=True) == found


def test_constants_must_agree_exactly():
    assert differences(np.zeros(3), np.zeros(3)) == []
    assert differences(np.array([0, 0, 1e-9]), np.zeros(3)) == ["constant"]


# exact


@pytest.mark.parametrize("name", [*LINEAR, *GAINS, "leaky_relu"])
@pytest.mark.parametrize("param", [None, 0, 0.2, 3])
def test_gains_are_equal(torch, name, param):
    assert init.calculate_gain(name, param) == torch.nn.init.calculate_gain(name, param)


@given(st.lists(st.integers(1, 7), min_size=2, max_size=5))
def test_fans_are_equal(shape):
    torch = pytest.importorskip("torch")
    due = torch.nn.init._calculate_fan_in_and_fan_out(torch.empty(shape))
    assert fans(shape) == due
    if len(shape) == 2:
        assert fans(shape[::-1], "paddle") == due


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize(("name", "shape", "arguments"), [
    ("constant_", [3, 2], (0.1,)), ("constant_", [3], (-math.inf,)), ("constant_", [], (math.nan,)),
    ("ones_", [3], ()), ("zeros_", [2, 3], ()),
    ("eye_", [3, 3], ()), ("eye_", [5, 3], ()), ("eye_", [2, 4], ()),
    ("dirac_", [4, 4, 3], ()), ("dirac_", [6, 4, 2, 5], ()), ("dirac_", [3, 8, 4, 1, 3], ()),
    ("dirac_", [8, 2, 3], (4,)), ("dirac_", [6, 4, 3, 3], (3,)), ("dirac_", [6, 1, 4], (6,)),
])  # fmt: skip
def test_what_is_not_random_is_equal(torch, paddle, name, shape, arguments, dtype):
    theirs = getattr(torch.nn.init, name)(torch.full(shape, 7.0, dtype=getattr(torch, dtype)), *arguments)
    ours = getattr(init, name)(paddle.full(shape, 7.0).cast(dtype), *arguments)
    np.testing.assert_array_equal(ours.cast("float64").numpy(), theirs.double().numpy())


@pytest.mark.parametrize(("name", "shape", "arguments", "paddles"), [
    ("xavier_uniform_", [3], (), {}), ("xavier_normal_", [3], (), {}), ("kaiming_uniform_", [3], (), {}), ("kaiming_normal_", [3], (), {}),
    ("kaiming_uniform_", [3, 4], (0, "fan"), {"layout": "torch"}), ("kaiming_normal_", [3, 4], (0, "fan_in", "gelu"), {"layout": "torch"}),
    ("eye_", [3], (), {}), ("eye_", [3, 2, 1], (), {}), ("dirac_", [3, 3], (), {}), ("dirac_", [3] * 6, (), {}),
    ("dirac_", [4, 2, 3], (3,), {}), ("orthogonal_", [3], (), {}), ("sparse_", [3], (0.5,), {}), ("sparse_", [3, 2, 2], (0.5,), {}),
])  # fmt: skip
def test_what_pytorch_refuses_is_refused(torch, paddle, name, shape, arguments, paddles):
    with pytest.raises(ValueError):  # noqa: PT011 - the texts are PyTorch's
        getattr(torch.nn.init, name)(torch.zeros(shape), *arguments)
    with pytest.raises(init.InvalidInit):
        getattr(init, name)(paddle.zeros(shape), *arguments, **paddles)


# random

CASES = [
    ("uniform_", [100, 200], {}), ("uniform_", [100, 200], {"a": -0.3, "b": 0.1}),
    ("normal_", [100, 200], {}), ("normal_", [100, 200], {"mean": 2.0, "std": 0.02}),
    ("trunc_normal_", [100, 200], {}), ("trunc_normal_", [100, 200], {"std": 0.02}),
    ("trunc_normal_", [100, 200], {"mean": 0.5, "std": 0.8, "a": 0.0, "b": 1.0}),
    ("trunc_normal_", [100, 200], {"std": 2.0, "a": -0.1, "b": 3.0}), ("trunc_normal_", [100, 200], {"a": 1.5, "b": 1.9}),
    ("xavier_uniform_", [100, 200], {}), ("xavier_uniform_", [40, 20, 5, 5], {"gain": 1.7}),
    ("xavier_normal_", [100, 200], {"gain": 0.5}), ("xavier_normal_", [40, 20, 25], {}),
    ("kaiming_uniform_", [100, 200], {}), ("kaiming_uniform_", [100, 200], {"mode": "fan_out", "nonlinearity": "relu"}),
    ("kaiming_uniform_", [40, 20, 5, 5], {"a": 0.5, "mode": "fan_out"}), ("kaiming_uniform_", [40, 20, 5, 5], {"a": math.sqrt(5)}),
    ("kaiming_normal_", [100, 200], {"nonlinearity": "tanh"}),
    ("kaiming_normal_", [40, 20, 5, 5], {"mode": "fan_out", "nonlinearity": "selu"}),
    ("orthogonal_", [100, 200], {}), ("orthogonal_", [200, 100], {"gain": 3.0}), ("orthogonal_", [40, 20, 5, 5], {}),
    ("sparse_", [100, 200], {"sparsity": 0.155}), ("sparse_", [100, 200], {"sparsity": 0.9, "std": 1.0}),
]  # fmt: skip


def pair(torch, paddle, name, shape, arguments, dtype="float32"):
    """A sample of ours and one of theirs; theirs is drawn in float32 and rounded, as PyTorch's own float16 draws are coarse on CPU."""
    torch.manual_seed(0)
    theirs = getattr(torch.nn.init, name)(torch.empty(shape), **arguments).to(getattr(torch, dtype)).double().numpy()
    asks = name.startswith(("kaiming", "sparse")) and len(shape) == 2
    ours = getattr(init, name)(paddle.zeros(shape).cast(dtype), **arguments, generator=0, **({"layout": "torch"} if asks else {}))
    return ours.cast("float64").numpy(), theirs


@pytest.mark.parametrize(("name", "shape", "arguments"), CASES)
def test_distributions_are_equal(torch, paddle, name, shape, arguments):
    assert differences(*pair(torch, paddle, name, shape, arguments), bounded=name in BOUNDED) == []


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
@pytest.mark.parametrize("name", ["uniform_", "normal_", "trunc_normal_", "xavier_uniform_", "kaiming_normal_", "orthogonal_"])
def test_distributions_are_equal_in_every_type(torch, paddle, name, dtype):
    ours, theirs = pair(torch, paddle, name, [100, 200], {}, dtype)
    if name == "uniform_":
        theirs = np.where(theirs == 1, theirs.mean(), theirs)  # rounding to a short type lifts some to the bound, which ours never reach
    assert differences(ours, theirs) == []


@pytest.mark.parametrize(("name", "shape", "arguments", "changed"), [
    ("uniform_", [100, 200], {}, {"b": 0.98}),
    ("normal_", [100, 200], {}, {"std": 1.05}),
    ("trunc_normal_", [100, 200], {"std": 2.0}, {"std": 2.0, "a": -4.0, "b": 4.0}),  # bounds in standard deviations
    ("trunc_normal_", [100, 200], {}, {"std": 0.8796, "a": -9.0, "b": 9.0}),  # the same moments, not cut
    ("xavier_uniform_", [100, 200], {}, {"gain": 1.05}),
    ("kaiming_uniform_", [100, 200], {}, {"mode": "fan_out"}),
    ("kaiming_normal_", [100, 200], {}, {"nonlinearity": "linear"}),
    ("orthogonal_", [100, 200], {}, {"gain": 1.05}),
    ("sparse_", [100, 200], {"sparsity": 0.1}, {"sparsity": 0.2}),
])  # fmt: skip
def test_another_distribution_would_be_seen(torch, paddle, name, shape, arguments, changed):
    _, theirs = pair(torch, paddle, name, shape, arguments)
    ours, _ = pair(torch, paddle, name, shape, {**arguments, **changed})
    assert differences(ours, theirs) != []


@pytest.mark.parametrize("name", ["kaiming_uniform_", "kaiming_normal_"])
def test_the_fans_of_a_linear_layer_are_those_of_pytorch(torch, paddle, name):
    torch.manual_seed(0)
    theirs = getattr(torch.nn.init, name)(torch.nn.Linear(300, 60).weight, nonlinearity="relu").detach().numpy()
    layer = paddle.nn.Linear(300, 60)
    assert differences(getattr(init, name)(layer, nonlinearity="relu", generator=0).numpy(), theirs) == []
    assert differences(getattr(init, name)(layer.weight, nonlinearity="relu", generator=0, layout="paddle").numpy(), theirs) == []
    assert differences(getattr(init, name)(layer.weight, nonlinearity="relu", generator=0, layout="torch").numpy(), theirs) != []


def test_zeros_fall_evenly_as_in_pytorch(torch, paddle):
    ours, theirs = pair(torch, paddle, "sparse_", [50, 400], {"sparsity": 0.3})
    assert ((ours == 0).sum(axis=0) == (theirs == 0).sum(axis=0)).all()
    rows = (ours == 0).sum(axis=1)
    assert abs(rows - 120).max() < 4 * math.sqrt(400 * 0.3 * 0.7)


def test_orthogonal_matrices_have_no_preferred_sign(paddle):
    corners = [float(init.orthogonal_(paddle.zeros([4, 4]), generator=seed)[0, 0]) for seed in range(400)]
    assert differences(corners, [-x for x in corners]) == []
    plain = [float(np.linalg.qr(np.random.default_rng(seed).standard_normal((4, 4)))[0][0, 0]) for seed in range(400)]
    assert differences(plain, [-x for x in plain]) != [], "without the signs of R the check must fail"
