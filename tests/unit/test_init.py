"""The initialisers without PyTorch: what they write where, how they are seeded, what they refuse."""

from __future__ import annotations

import doctest
import math
import subprocess
import sys

import numpy as np
import pytest

from paralign import init
from paralign.errors import UsageError
from paralign.init import draws, fans
from paralign.init._rounding import GREATEST, nearest, rounded

DTYPES = list(GREATEST)


@pytest.fixture(scope="module")
def paddle():
    module = pytest.importorskip("paddle")
    module.set_device("cpu")
    return module


def zeros(paddle, shape, dtype="float32"):
    return paddle.zeros(shape).cast(dtype)


def values(tensor):
    return tensor.cast("float64").numpy()


RANDOM = {
    "uniform_": lambda t, **k: init.uniform_(t, -1, 1, **k),
    "normal_": lambda t, **k: init.normal_(t, 1, 2, **k),
    "trunc_normal_": lambda t, **k: init.trunc_normal_(t, 0, 1, -1, 1, **k),
    "xavier_uniform_": init.xavier_uniform_,
    "xavier_normal_": init.xavier_normal_,
    "kaiming_uniform_": lambda t, **k: init.kaiming_uniform_(t, layout="torch", **k),
    "kaiming_normal_": lambda t, **k: init.kaiming_normal_(t, layout="torch", **k),
    "orthogonal_": init.orthogonal_,
    "sparse_": lambda t, **k: init.sparse_(t, 0.25, layout="torch", **k),
}
FIXED = {"constant_": lambda t: init.constant_(t, 0.3), "ones_": init.ones_, "zeros_": init.zeros_, "eye_": init.eye_}


# writing


@pytest.mark.paddle
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", [*RANDOM, *FIXED])
def test_each_function_fills_in_place_and_returns_the_tensor(paddle, name, dtype):
    tensor = paddle.full([6, 4], 7.0).cast(dtype)
    place = tensor.data_ptr()
    assert {**RANDOM, **FIXED}[name](tensor) is tensor
    assert (tensor.data_ptr(), tensor.shape, str(tensor.dtype)) == (place, [6, 4], f"paddle.{dtype}")
    assert not (values(tensor) == 7.0).any()


@pytest.mark.paddle
@pytest.mark.parametrize("frozen", [True, False])
def test_a_parameter_stays_the_leaf_it_is(paddle, frozen):
    layer = paddle.nn.Linear(6, 4)
    layer.weight.stop_gradient = frozen
    assert init.xavier_normal_(layer) is layer.weight
    assert (layer.weight.stop_gradient, layer.weight.is_leaf) == (frozen, True)
    layer(paddle.ones([2, 6])).sum().backward()
    assert (layer.weight.grad is None) == frozen


@pytest.mark.paddle
def test_a_view_writes_into_what_it_views(paddle):
    whole = paddle.zeros([4, 3])
    init.ones_(whole[:2])
    assert whole.numpy().tolist() == [[1.0] * 3] * 2 + [[0.0] * 3] * 2


@pytest.mark.paddle
@pytest.mark.parametrize("name", ["uniform_", "normal_", "trunc_normal_", "constant_"])
def test_scalars_and_empty_tensors_can_be_filled(paddle, name):
    function = {**RANDOM, **FIXED}[name]
    assert math.isfinite(float(function(paddle.full([], math.nan))))
    assert function(paddle.zeros([0, 3])).shape == [0, 3]


@pytest.mark.paddle
@pytest.mark.parametrize("name", ["xavier_uniform_", "xavier_normal_", "orthogonal_", "sparse_"])
def test_empty_matrices_are_left(paddle, name):
    assert RANDOM[name](paddle.zeros([0, 0])).shape == [0, 0]


@pytest.mark.paddle
@pytest.mark.parametrize("name", ["kaiming_uniform_", "kaiming_normal_"])
def test_kaiming_of_nothing_warns(paddle, name):
    with pytest.warns(UserWarning, match="has no elements: nothing is initialised"):
        RANDOM[name](paddle.zeros([0, 3]))


# seeds


@pytest.mark.paddle
@pytest.mark.parametrize("name", RANDOM)
def test_paddle_seed_makes_values_reproducible(paddle, name):
    def drawn():
        return values(RANDOM[name](paddle.zeros([6, 4]))).tolist()

    paddle.seed(5)
    first, second = drawn(), drawn()
    paddle.seed(5)
    assert drawn() == first
    assert second != first


@pytest.mark.paddle
@pytest.mark.parametrize("name", RANDOM)
def test_a_seed_of_its_own_leaves_paddle_alone(paddle, name):
    paddle.seed(1)
    due = paddle.rand([3]).tolist()
    paddle.seed(1)
    first = values(RANDOM[name](paddle.zeros([6, 4]), generator=3)).tolist()
    assert paddle.rand([3]).tolist() == due
    assert values(RANDOM[name](paddle.zeros([6, 4]), generator=3)).tolist() == first


@pytest.mark.paddle
def test_a_numpy_generator_goes_on(paddle):
    random = np.random.default_rng(0)
    first, second = (values(init.uniform_(paddle.zeros([5]), generator=random)).tolist() for _ in range(2))
    assert first != second


@pytest.mark.paddle
@pytest.mark.parametrize("bad", [-1, True, 1.5, "0", object()])
def test_what_cannot_seed_is_told(paddle, bad):
    with pytest.raises(init.InvalidInit, match="cannot seed random values") as caught:
        init.uniform_(paddle.zeros([2]), generator=bad)
    assert caught.value.where == "generator"
    assert "numpy.random.Generator" in caught.value.hint


# values


@pytest.mark.paddle
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(30, 20), (20, 30), (25, 25), (12, 4, 3, 3), (4, 12, 2)])
def test_orthogonal_matrices_are(paddle, shape, dtype):
    matrix = values(init.orthogonal_(zeros(paddle, shape, dtype), gain=2.0, generator=0)).reshape(shape[0], -1)
    product = matrix @ matrix.T if matrix.shape[0] <= matrix.shape[1] else matrix.T @ matrix
    tolerance = {"float16": 0.02, "bfloat16": 0.2, "float32": 1e-5, "float64": 1e-12}[dtype]
    np.testing.assert_allclose(product, 4 * np.eye(len(product)), atol=tolerance)


@pytest.mark.paddle
@pytest.mark.parametrize("dtype", DTYPES)
def test_uniform_values_stay_below_the_upper_bound(paddle, dtype):
    found = values(init.uniform_(zeros(paddle, [200, 1000], dtype), -0.3, 0.3, generator=0))
    assert found.min() >= nearest(-0.3, dtype)
    assert nearest(0.29, dtype) < found.max() < nearest(0.3, dtype)


def test_rounding_alone_would_reach_the_upper_bound():
    drawn = np.random.default_rng(0).random(200_000, dtype=np.float32)
    assert (rounded(drawn, "bfloat16") == 1).any()
    assert (draws.Uniform(0, 1).values(np.random.default_rng(0), (200_000,), "bfloat16") < 1).all()


def test_a_range_without_room_for_a_value_gives_its_bound():
    assert draws.Uniform(1.0001, 1.0002).values(np.random.default_rng(0), (4,), "bfloat16").tolist() == [1.0] * 4
    assert draws.Uniform(0.5, 0.5).values(np.random.default_rng(0), (4,), "float32").tolist() == [0.5] * 4


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("low", "high"), [(-2, 2), (0.5, 0.7), (3, math.inf), (-math.inf, -3), (-0.1, 0.1), (8, 9), (40, 41), (2, 2),
                                           (-math.inf, math.inf)])  # fmt: skip
def test_cut_normal_values_have_the_moments_of_theory(dtype, low, high):
    found = draws.Truncated(0.0, 1.0, low, high).values(np.random.default_rng(0), (20_000,), dtype).astype(np.float64)
    assert found.min() >= nearest(low, dtype)
    assert found.max() <= nearest(high, dtype)
    peak = min(max(0.0, low), high)
    grid = np.linspace(max(low, peak - 12), min(high, peak + 12), 200_001)
    weight = np.exp(-(grid - peak) * (grid + peak) / 2)
    mean = float((grid * weight).sum() / weight.sum())
    std = math.sqrt(float(((grid - mean) ** 2 * weight).sum() / weight.sum()))
    step = max(abs(mean), std) * {"float16": 2.0**-10, "bfloat16": 2.0**-7}.get(dtype, 1e-6)  # of the elements' own rounding
    assert abs(found.mean() - mean) < 5 * std / math.sqrt(20_000) + step
    assert abs(found.std() - std) < 0.05 * std + step


@pytest.mark.paddle
@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize(("shape", "sparsity", "each"), [((10, 7), 0.1, 1), ((10, 7), 0.11, 2), ((7, 10), 0.5, 4), ((5, 5), 0.0, 0),
                                                         ((5, 5), 1.0, 5)])  # fmt: skip
def test_each_column_loses_its_share(paddle, shape, sparsity, each, dtype):
    found = values(init.sparse_(zeros(paddle, shape, dtype), sparsity, std=1.0, generator=0, layout="torch"))
    assert ((found == 0).sum(axis=0) == each).all()
    turned = values(init.sparse_(zeros(paddle, shape[::-1], dtype), sparsity, std=1.0, generator=0, layout="paddle"))
    assert ((turned == 0).sum(axis=1) == each).all()


# layers and layouts


@pytest.mark.paddle
@pytest.mark.parametrize(("mode", "fan"), [("fan_in", 400), ("fan_out", 25), ("FAN_IN", 400)])
def test_a_layer_tells_its_layout(paddle, mode, fan):
    bound = math.sqrt(6 / fan)
    for layer in (paddle.nn.Linear(400, 25), type("Mine", (paddle.nn.Linear,), {})(400, 25)):
        top = np.abs(values(init.kaiming_uniform_(layer, nonlinearity="relu", mode=mode, generator=0))).max()
        assert 0.99 * bound < top <= bound


@pytest.mark.paddle
def test_paddles_own_layer_in_pytorchs_layout_is_known(paddle):
    if not hasattr(paddle, "compat") or not hasattr(paddle.compat, "nn"):
        pytest.skip("this Paddle has no paddle.compat.nn")
    top = np.abs(values(init.kaiming_uniform_(paddle.compat.nn.Linear(400, 25), nonlinearity="relu", generator=0))).max()
    assert 0.99 < top / math.sqrt(6 / 400) <= 1


@pytest.mark.paddle
def test_a_said_layout_is_used(paddle):
    weight = paddle.zeros([400, 25])
    assert np.abs(values(init.kaiming_uniform_(weight, 1, generator=0, layout="paddle"))).max() < math.sqrt(3 / 400)
    assert np.abs(values(init.kaiming_uniform_(weight, 1, generator=0, layout="torch"))).max() > 0.9 * math.sqrt(3 / 25)


@pytest.mark.paddle
@pytest.mark.parametrize("name", ["kaiming_uniform_", "kaiming_normal_", "sparse_"])
@pytest.mark.parametrize("shape", [[6, 4], [5, 5]])
def test_a_bare_matrix_is_refused(paddle, name, shape):
    arguments = (0.5,) if name == "sparse_" else ()
    weight = paddle.zeros(shape)
    with pytest.raises(init.InvalidInit, match="does not say which axis is the input") as caught:
        getattr(init, name)(weight, *arguments)
    assert "layout='paddle' for [in, out]" in caught.value.hint
    assert (values(weight) == 0).all()


@pytest.mark.paddle
def test_convolutions_need_no_layout(paddle):
    layer = paddle.nn.Conv2D(8, 4, 3)
    first = values(init.kaiming_normal_(layer, generator=0)).tolist()
    assert values(init.kaiming_normal_(layer.weight, generator=0)).tolist() == first
    assert values(init.kaiming_normal_(layer.weight, generator=0, layout="paddle")).tolist() == first


@pytest.mark.paddle
def test_layers_whose_weight_is_called_otherwise(paddle):
    assert init.zeros_(paddle.nn.PReLU(3)).numpy().tolist() == [0.0] * 3
    assert init.constant_(paddle.nn.InstanceNorm2D(2), 3).numpy().tolist() == [3.0] * 2


# refusals


@pytest.mark.paddle
@pytest.mark.parametrize(("call", "message", "hint"), [
    (lambda p: init.sparse_(p.nn.Linear(2, 3), 0, layout="torch"), "Linear keeps its weight in layout 'paddle', not 'torch'", "leave"),
    (lambda p: init.kaiming_uniform_(p.zeros([2, 3]), layout="nhwc"), "there is no layout 'nhwc'", "'paddle' for [in, out]"),
    (lambda p: init.ones_(p.nn.LSTM(2, 3)), "LSTM has no parameter 'weight'", "weight_ih_l0"),
    (lambda p: init.ones_(p.nn.ReLU()), "ReLU has no parameter 'weight'", "default_like_torch"),
    (lambda p: init.ones_(p.nn.utils.weight_norm(p.nn.Linear(2, 3))), "the weight of this Linear is computed", "weight_v, weight_g"),
    (lambda _: init.ones_(np.ones(3)), "numpy.ndarray is neither a Paddle tensor nor a layer", "paddle.Tensor"),
    (lambda _: init.ones_(None), "builtins.NoneType is neither", "paddle.Tensor"),
    (lambda p: init.ones_(p.zeros([2], "int64")), "tensors of int64 cannot be initialised", "float16, bfloat16, float32, float64"),
    (lambda p: init.uniform_(p.zeros([2]), 1, 0), "the lower bound 1 is above the upper bound 0", "exchange"),
    (lambda p: init.uniform_(p.zeros([2]), -math.inf, 0), "a=-inf does not fit into float32", "wider"),
    (lambda p: init.uniform_(p.zeros([2], "float16"), -60000, 60000), "b - a=120000 does not fit into float16", "65504"),
    (lambda p: init.uniform_(p.zeros([2]), math.nan, 0), "a=nan is not a number", "float"),
    (lambda p: init.uniform_(p.zeros([2]), "0", 1), "a='0' is not a number", "float"),
    (lambda p: init.normal_(p.zeros([2]), 0, -1), "the standard deviation -1 is negative", "0 or more"),
    (lambda p: init.trunc_normal_(p.zeros([2]), std=0), "needs a positive standard deviation, not 0", "constant_"),
    (lambda p: init.trunc_normal_(p.zeros([2]), a=2, b=1), "the lower bound 2 is above the upper bound 1", "exchange"),
    (lambda p: init.trunc_normal_(p.zeros([2]), a=math.inf, b=math.inf), "a=inf does not fit", "wider"),
    (lambda p: init.constant_(p.zeros([2], "float16"), 1e6), "val=1e+06 does not fit into float16", "wider"),
    (lambda p: init.xavier_uniform_(p.zeros([3])), "need a tensor of 2 or more dimensions, this one has shape [3]", "vectors"),
    (lambda p: init.kaiming_normal_(p.zeros([2, 3]), mode="fan", layout="torch"), "there is no mode 'fan'", "fan_in, fan_out"),
    (lambda p: init.kaiming_normal_(p.nn.Linear(2, 3), nonlinearity="gelu"), "no gain for nonlinearity 'gelu'", "linear, conv1d"),
    (lambda p: init.eye_(p.zeros([2])), "eye_ needs a tensor of 2 dimensions, this one has shape [2]", "another function"),
    (lambda p: init.dirac_(p.zeros([2, 2])), "dirac_ needs a tensor of 3, 4, 5 dimensions", "another function"),
    (lambda p: init.dirac_(p.zeros([4, 2, 3]), 3), "4 output channels do not fall into 3 groups", "groups"),
    (lambda p: init.dirac_(p.zeros([4, 2, 3]), 0), "groups=0 is no number of groups", "1 or more"),
    (lambda p: init.orthogonal_(p.zeros([4])), "orthogonal_ needs a tensor of 2 or more dimensions", "vectors"),
    (lambda p: init.sparse_(p.zeros([4, 2, 3]), 0.5), "sparse_ needs a tensor of 2 dimensions", "another function"),
    (lambda p: init.sparse_(p.nn.Linear(4, 2), 1.5), "sparsity 1.5 is no share", "0 to 1"),
    (lambda p: init.default_like_torch(p.zeros([2])), "Tensor is not a Paddle layer", "single tensors"),
    (lambda p: init.default_like_torch(p.nn.Linear(2, 2), seed=-1), "-1 cannot seed random values", "int of 0 or more"),
])  # fmt: skip
def test_what_is_wrong_is_told_with_its_remedy(paddle, call, message, hint):
    with pytest.raises(init.InvalidInit) as caught:
        call(paddle)
    assert message in caught.value.what
    assert hint in caught.value.hint
    assert isinstance(caught.value, ValueError)
    assert isinstance(caught.value, UsageError)


@pytest.mark.parametrize("slope", [True, "0.1", None])
def test_a_slope_must_be_a_number(slope):
    if slope is None:
        assert init.calculate_gain("leaky_relu", slope) == math.sqrt(2 / (1 + 0.01**2))
        return
    with pytest.raises(init.InvalidInit, match="is not a number"):
        init.calculate_gain("leaky_relu", slope)


# the package


@pytest.mark.parametrize("module", [init, fans])
@pytest.mark.paddle
def test_the_examples_run(paddle, module):
    done = doctest.testmod(module)
    assert done.attempted > 0
    assert done.failed == 0


def loaded(code):
    code = f"import sys; {code}; print('paddle' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    return done.stdout.strip()


@pytest.mark.paddle
def test_importing_costs_no_framework(paddle):
    assert loaded("import paralign.init") == "False"
    assert loaded("import paralign.init; paralign.init.calculate_gain('relu')") == "False"
    assert loaded("import paralign.init._paddle as p; p.paddle()") == "True"


def test_without_paddle_it_says_what_to_install(monkeypatch):
    monkeypatch.setitem(sys.modules, "paddle", None)
    with pytest.raises(UsageError.__base__, match="cannot be imported") as caught:
        init.ones_(np.ones(3))
    assert "install paddlepaddle" in caught.value.hint
