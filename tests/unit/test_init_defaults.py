"""Default initialisation of layers: distributions against PyTorch's own layers; the report; what is left."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paralign import init

pytestmark = pytest.mark.paddle

#: seeds that are drawn of small parameters until a sample has this many values
ENOUGH = 6000


@pytest.fixture(scope="module")
def torch():
    return pytest.importorskip("torch")


@pytest.fixture(scope="module")
def paddle():
    module = pytest.importorskip("paddle")
    module.set_device("cpu")
    return module


def differences(ours, theirs):
    """In what two samples differ more than chance allows (about once in ten thousand)."""
    if theirs.min() == theirs.max():
        return [] if (ours == theirs).all() else ["constant"]
    found, size, spread = [], ours.size, theirs.std()
    if abs(ours.mean() - theirs.mean()) > 4.5 * spread * math.sqrt(2 / size):
        found.append("mean")
    peaked = float((((theirs - theirs.mean()) / spread) ** 4).mean())
    if abs(ours.var() / theirs.var() - 1) > 4.5 * math.sqrt(2 * (peaked - 1) / size):
        found.append("spread")
    points = np.sort(np.concatenate([ours, theirs]))
    first, second = (np.searchsorted(np.sort(sample), points, side="right") / size for sample in (ours, theirs))
    if np.abs(first - second).max() * math.sqrt(size / 2) > 2.2:
        found.append("distribution")
    if peaked < 2 and abs(np.abs(ours).max() / np.abs(theirs).max() - 1) > 12 / size:  # a uniform distribution's is 1.8
        found.append("bounds")
    return found


def values(tensor):
    return (tensor.detach().double() if hasattr(tensor, "double") else tensor.detach().cast("float64")).numpy()


def split(state):
    """A torch state with packed attention taken apart, under Paddle's names; counters left out."""
    found = {}
    for name, tensor in state.items():
        if name.endswith("num_batches_tracked"):
            continue
        renamed = name.replace("multihead_attn", "cross_attn").replace("running_mean", "_mean").replace("running_var", "_variance")
        if "in_proj_" in renamed:
            parts = zip(("q_proj", "k_proj", "v_proj"), np.split(values(tensor), 3), strict=True)
            found.update({renamed.replace("in_proj_", f"{part}."): value for part, value in parts})
        else:
            found[renamed.replace("_proj_weight", "_proj.weight")] = values(tensor)
    return found


def samples(state_of, size):
    """Name -> values over as many seeds as the smallest random parameter needs, at most 300."""
    first = state_of(0)
    seeds = range(1, min(300, math.ceil(size / min(v.size for v in first.values()))))
    states = [first, *(state_of(seed) for seed in seeds)]
    return {name: np.concatenate([state[name].ravel() for state in states])[:200_000] for name in first}


def compared(torch, paddle, theirs, ours, initialise=init.default_like_torch, rename=lambda name: name):
    """Name -> in what a Paddle layer's parameters differ from PyTorch's; only those that differ."""

    def reference(seed):
        torch.manual_seed(seed)
        return {rename(name): value for name, value in split(theirs(torch.nn).state_dict()).items()}

    def candidate(seed):
        paddle.seed(seed)
        layer = ours(paddle.nn)
        initialise(layer, seed)
        return {name: values(tensor) for name, tensor in layer.named_parameters()}

    due, found = samples(reference, ENOUGH), samples(candidate, ENOUGH)
    assert sorted(due) == sorted(found)
    assert {name: value.size for name, value in due.items()} == {name: value.size for name, value in found.items()}
    pairs = {name: differences(found[name], due[name]) for name in due}
    return {name: found for name, found in pairs.items() if found}


LAYERS = {
    "Linear": (lambda n: n.Linear(60, 30), lambda n: n.Linear(60, 30)),
    "Linear without bias": (lambda n: n.Linear(60, 30, bias=False), lambda n: n.Linear(60, 30, bias_attr=False)),
    "Conv1d": (lambda n: n.Conv1d(8, 40, 5), lambda n: n.Conv1D(8, 40, 5)),
    "Conv2d": (lambda n: n.Conv2d(8, 40, (3, 2), groups=4), lambda n: n.Conv2D(8, 40, (3, 2), groups=4)),
    "Conv3d": (lambda n: n.Conv3d(4, 40, 2), lambda n: n.Conv3D(4, 40, 2)),
    "ConvTranspose1d": (lambda n: n.ConvTranspose1d(8, 40, 5), lambda n: n.Conv1DTranspose(8, 40, 5)),
    "ConvTranspose2d": (lambda n: n.ConvTranspose2d(8, 40, 3, groups=2), lambda n: n.Conv2DTranspose(8, 40, 3, groups=2)),
    "ConvTranspose3d": (lambda n: n.ConvTranspose3d(4, 40, 2), lambda n: n.Conv3DTranspose(4, 40, 2)),
    "Embedding": (lambda n: n.Embedding(60, 20), lambda n: n.Embedding(60, 20)),
    "Bilinear": (lambda n: n.Bilinear(9, 16, 30), lambda n: n.Bilinear(9, 16, 30)),
    "BatchNorm1d": (lambda n: n.BatchNorm1d(8), lambda n: n.BatchNorm1D(8)),
    "BatchNorm2d": (lambda n: n.BatchNorm2d(8), lambda n: n.BatchNorm2D(8)),
    "BatchNorm3d": (lambda n: n.BatchNorm3d(8), lambda n: n.BatchNorm3D(8)),
    "SyncBatchNorm": (lambda n: n.SyncBatchNorm(8), lambda n: n.SyncBatchNorm(8)),
    "LayerNorm": (lambda n: n.LayerNorm([4, 8]), lambda n: n.LayerNorm([4, 8])),
    "GroupNorm": (lambda n: n.GroupNorm(2, 8), lambda n: n.GroupNorm(2, 8)),
    "RNN": (lambda n: n.RNN(12, 20, 2, nonlinearity="relu"), lambda n: n.SimpleRNN(12, 20, 2, activation="relu")),
    "GRU": (lambda n: n.GRU(12, 20), lambda n: n.GRU(12, 20)),
    "LSTM": (lambda n: n.LSTM(12, 20, 2, bidirectional=True), lambda n: n.LSTM(12, 20, 2, direction="bidirect")),
    "RNNCell": (lambda n: n.RNNCell(12, 20), lambda n: n.SimpleRNNCell(12, 20)),
    "GRUCell": (lambda n: n.GRUCell(12, 20), lambda n: n.GRUCell(12, 20)),
    "LSTMCell": (lambda n: n.LSTMCell(12, 20), lambda n: n.LSTMCell(12, 20)),
    "MultiheadAttention": (lambda n: n.MultiheadAttention(24, 4), lambda n: n.MultiHeadAttention(24, 4)),
    "MultiheadAttention of other sizes": (lambda n: n.MultiheadAttention(24, 4, kdim=48, bias=False),
                                          lambda n: n.MultiHeadAttention(24, 4, kdim=48, bias_attr=False)),
    "TransformerEncoderLayer": (lambda n: n.TransformerEncoderLayer(24, 4, 40), lambda n: n.TransformerEncoderLayer(24, 4, 40)),
    "TransformerDecoderLayer": (lambda n: n.TransformerDecoderLayer(24, 4, 40), lambda n: n.TransformerDecoderLayer(24, 4, 40)),
    "Transformer": (lambda n: n.Transformer(24, 4, 1, 1, 40, batch_first=True), lambda n: n.Transformer(24, 4, 1, 1, 40)),
}  # fmt: skip


@pytest.mark.torch
@pytest.mark.parametrize("name", LAYERS)
def test_layers_start_as_in_pytorch(torch, paddle, name):
    assert compared(torch, paddle, *LAYERS[name]) == {}


@pytest.mark.torch
@pytest.mark.parametrize(("theirs", "ours", "rename"), [
    (lambda n: n.PReLU(3), lambda n: n.PReLU(3), lambda _: "_weight"),
    (lambda n: n.PReLU(3, 0.1), lambda n: n.PReLU(3, 0.1), lambda _: "_weight"),
    (lambda n: n.InstanceNorm2d(5, affine=True), lambda n: n.InstanceNorm2D(5), lambda name: name.replace("weight", "scale")),
])  # fmt: skip
def test_layers_whose_parameters_are_called_otherwise(torch, paddle, theirs, ours, rename):
    def spoiled(nn):
        layer = ours(nn)
        for tensor in layer.parameters():
            tensor.set_value(tensor * 0 + 9)
        return layer

    assert compared(torch, paddle, theirs, spoiled, rename=rename) == {}
    assert compared(torch, paddle, theirs, spoiled, lambda layer, seed: None, rename) != {}  # noqa: ARG005 - nothing is initialised


@pytest.mark.torch
@pytest.mark.parametrize(("name", "due"), [
    ("Linear", {"weight": {"spread", "distribution", "bounds"}, "bias": {"spread", "distribution"}}),
    ("Conv2d", {"weight": {"spread", "distribution"}, "bias": {"spread", "distribution"}}),
    ("Embedding", {"weight": {"spread", "distribution"}}),
    ("MultiheadAttention", {"q_proj.weight": {"spread", "distribution", "bounds"}}),
])  # fmt: skip
def test_paddles_own_start_fails_the_same_check(torch, paddle, name, due):
    found = compared(torch, paddle, *LAYERS[name], lambda layer, seed: None)  # noqa: ARG005 - left as Paddle made it
    for parameter, failures in due.items():
        assert failures & set(found.get(parameter, [])), found


@pytest.mark.torch
@pytest.mark.parametrize(("name", "wrong", "parameter"), [
    ("Linear", lambda layer, seed: init.kaiming_uniform_(layer, math.sqrt(5), "fan_out", generator=seed), "weight"),
    ("ConvTranspose1d", lambda layer, seed: init.kaiming_uniform_(layer, math.sqrt(5), "fan_out", generator=seed), "weight"),
    ("MultiheadAttention", lambda layer, seed: init.xavier_uniform_(layer.q_proj, generator=seed), "q_proj.weight"),
    ("Transformer", lambda layer, seed: init.default_like_torch(layer.encoder, seed), "encoder.layers.0.linear1.weight"),
    ("LSTM", lambda layer, seed: init.xavier_uniform_(layer.weight_hh_l0, generator=seed), "weight_hh_l0"),
])  # fmt: skip
def test_a_slip_fails_the_same_check(torch, paddle, name, wrong, parameter):
    assert compared(torch, paddle, *LAYERS[name], wrong)[parameter]


@pytest.mark.torch
@pytest.mark.parametrize(("padding", "row"), [(None, None), (0, 0), (3, 3), (-1, 4), (-2, 3)])
def test_padding_rows_are_zero_as_in_pytorch(torch, paddle, padding, row):
    layer = paddle.nn.Embedding(5, 3, padding_idx=padding)
    report = init.default_like_torch(layer, 0)
    theirs = torch.nn.Embedding(5, 3, padding_idx=padding).weight.detach().numpy()
    assert np.flatnonzero((layer.weight.numpy() == 0).all(axis=1)).tolist() == ([] if row is None else [row])
    assert np.flatnonzero((theirs == 0).all(axis=1)).tolist() == ([] if row is None else [row])
    assert report.filled[0].how == "N(mean 0, std 1)" + ("" if row is None else f", row {row} zero")


@pytest.mark.torch
def test_projected_lstm_starts_as_in_pytorch(torch, paddle):
    layer = paddle.nn.LSTM(12, 20, proj_size=6)
    init.default_like_torch(layer, 0)
    torch.manual_seed(0)
    theirs = {tuple(p.shape): values(p) for p in torch.nn.LSTM(12, 20, proj_size=6).parameters()}
    ours = {tuple(p.shape): values(p) for p in layer.parameters()}
    assert ours.keys() - theirs.keys() == {(20, 6)}, "Paddle keeps the projection as [hidden, projected]"
    for shape, value in ours.items():
        due = theirs[shape if shape in theirs else shape[::-1]]
        assert differences(value.ravel(), due.ravel()) in ([], ["bounds"])
        assert np.abs(value).max() <= 1 / math.sqrt(20)


# aliases, frozen parameters, types


def test_both_names_of_recurrent_weights_hold_the_same(paddle):
    layer = paddle.nn.LSTM(3, 4, 2, direction="bidirect")
    before = layer.weight_ih_l0.numpy()
    report = init.default_like_torch(layer, 0)
    assert len(report.filled) == 16
    assert layer.weight_ih_l0 is layer[0].cell_fw.weight_ih
    assert (layer.weight_ih_l0.numpy() != before).any()
    state = layer.state_dict()
    assert (state["weight_ih_l1_reverse"].numpy() == state["1.cell_bw.weight_ih"].numpy()).all()


def test_frozen_parameters_are_filled_and_stay_frozen(paddle):
    layer = paddle.nn.Linear(4, 3)
    layer.weight.stop_gradient = True
    init.zeros_(layer)
    init.default_like_torch(layer, 0)
    assert layer.weight.stop_gradient
    assert not layer.bias.stop_gradient
    assert (layer.weight.numpy() != 0).all()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64"])
def test_every_type_is_kept(paddle, dtype):
    layer = paddle.nn.Sequential(paddle.nn.Linear(400, 25), paddle.nn.BatchNorm1D(25))
    layer.to(dtype=dtype)
    report = init.default_like_torch(layer, 0)
    assert report.left == []
    assert {str(p.dtype) for p in layer.parameters()} == {f"paddle.{dtype}"}
    weight = layer[0].weight.cast("float64").numpy()
    assert 0.99 < np.abs(weight).max() / 0.05 < 1.005
    assert abs(weight.std() / (0.05 / math.sqrt(3)) - 1) < 0.02


def test_paddle_seed_makes_it_reproducible(paddle):
    def drawn():
        layer = paddle.nn.Linear(4, 3)
        paddle.seed(7)
        init.default_like_torch(layer)
        return layer.weight.tolist()

    assert drawn() == drawn()
    layer = paddle.nn.Linear(4, 3)
    init.default_like_torch(layer, 7)
    first = layer.weight.tolist()
    init.default_like_torch(layer, 8)
    assert layer.weight.tolist() != first


def test_layers_of_a_stack_are_drawn_apart_and_it_is_said(paddle):
    stack = paddle.nn.TransformerEncoder(paddle.nn.TransformerEncoderLayer(8, 2, 16), 2)
    report = init.default_like_torch(stack, 0)
    assert (stack.layers[0].linear1.weight.numpy() != stack.layers[1].linear1.weight.numpy()).all()
    assert [note for note in report.notes if "copies of one layer" in note] == report.notes
    assert len(report.notes) == 1
    assert init.default_like_torch(paddle.nn.TransformerEncoderLayer(8, 2, 16), 0).notes == []


# what is left


def model(paddle):
    class Mine(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc = paddle.nn.Linear(4, 3)
            self.token = self.create_parameter([1, 4])
            self.spectral = paddle.nn.SpectralNorm([3, 4])

    return Mine()


def test_what_has_no_rule_is_left_and_named(paddle):
    layer = model(paddle)
    before = {name: p.numpy() for name, p in layer.named_parameters()}
    report = init.default_like_torch(layer, 0)
    after = {name: p.numpy() for name, p in layer.named_parameters()}
    assert {name for name in before if (before[name] == after[name]).all()} == {"token", "spectral.weight_u", "spectral.weight_v"}
    assert report.unknown == ["Mine", "SpectralNorm"]
    assert str(report).splitlines() == [
        "2 parameters initialised as in PyTorch, 3 left as they were",
        "  fc.weight          Linear        U(-0.5, 0.5)",
        "  fc.bias            Linear        U(-0.5, 0.5)",
        "  token              Mine          left: there is no rule for Mine",
        "  spectral.weight_u  SpectralNorm  left: there is no rule for SpectralNorm",
        "  spectral.weight_v  SpectralNorm  left: there is no rule for SpectralNorm",
    ]


def test_computed_weights_are_left_and_it_is_said_why(paddle):
    report = init.default_like_torch(paddle.nn.utils.weight_norm(paddle.nn.Linear(4, 3)), 0)
    assert report.filled == []
    assert {left.name for left in report.left} == {"bias", "weight_v", "weight_g"}
    assert all("initialise before weight_norm" in left.why for left in report.left)


def test_what_a_user_added_to_a_known_layer_is_left(paddle):
    class Scaled(paddle.nn.Linear):
        def __init__(self):
            super().__init__(4, 3)
            self.scale = self.create_parameter([3])

    report = init.default_like_torch(Scaled(), 0)
    assert [entry.name for entry in report.filled] == ["weight", "bias"]
    assert report.left == [init.Left("scale", "Linear", "PyTorch's Linear has no such parameter")]


def test_sparse_convolutions_are_not_taken_for_dense_ones(paddle):
    layer = paddle.sparse.nn.Conv3D(2, 3, 3)
    assert [left.kind for left in init.default_like_torch(layer, 0).left] == ["Conv3D", "Conv3D"]


def test_what_a_user_put_into_attention_keeps_its_own_rule(paddle):
    attention = paddle.nn.MultiHeadAttention(8, 2)
    attention.q_proj = paddle.nn.Sequential(paddle.nn.Linear(8, 8))
    report = {entry.name: entry.how for entry in init.default_like_torch(attention, 0).filled}
    assert report["q_proj.0.weight"] == f"U(-{8**-0.5:.6g}, {8**-0.5:.6g})"
    assert report["k_proj.weight"] == f"U(-{(6 / 32) ** 0.5:.6g}, {(6 / 32) ** 0.5:.6g})"


def test_a_tensor_that_two_layers_share_is_filled_once_and_it_is_said(paddle):
    first, second = paddle.nn.Embedding(6, 6), paddle.nn.Linear(6, 6)
    second.weight = first.weight
    report = init.default_like_torch(paddle.nn.Sequential(first, second), 0)
    assert [entry.name for entry in report.filled] == ["0.weight", "1.bias"]
    (note,) = report.notes
    assert note.startswith("0 (Embedding) and 1 (Linear) share a tensor: it is filled with N(mean 0, std 1), as the first of them")


def test_layers_without_elements_or_parameters(paddle):
    assert str(init.default_like_torch(paddle.nn.ReLU(), 0)) == "0 parameters initialised as in PyTorch, 0 left as they were"
    assert init.default_like_torch(paddle.nn.Sequential(), 0).unknown == []


def test_packed_attention_in_pytorchs_layout(paddle):
    if not hasattr(getattr(getattr(paddle, "compat", None), "nn", None), "MultiheadAttention"):
        pytest.skip("this Paddle has no paddle.compat.nn.MultiheadAttention")
    attention = paddle.compat.nn.MultiheadAttention(8, 2, add_bias_kv=True)
    found = {entry.name: entry.how for entry in init.default_like_torch(attention, 0).filled}
    bound = f"U(-{(6 / 32) ** 0.5:.6g}, {(6 / 32) ** 0.5:.6g})"
    assert found == {
        "in_proj_weight": bound,
        "in_proj_bias": "0",
        "bias_k": "N(mean 0, std 0.353553)",
        "bias_v": "N(mean 0, std 0.353553)",
        "out_proj.weight": "U(-0.353553, 0.353553)",
        "out_proj.bias": "0",
    }


def test_the_initialisers_of_paddledetection_draw_weight_and_bias_by_the_fan(paddle):
    linear, conv = paddle.nn.Linear(64, 300), paddle.nn.Conv2D(6, 200, 3, groups=2)
    assert init.linear_init_(linear, generator=0) is linear
    assert init.conv_init_(conv, generator=0) is conv
    for layer, fan in ((linear, 64), (conv, 27)):
        for values in (layer.weight.numpy(), layer.bias.numpy()):
            assert 0.9 / math.sqrt(fan) < np.abs(values).max() <= 1 / math.sqrt(fan)
            assert np.std(values) == pytest.approx(1 / math.sqrt(3 * fan), rel=0.15)
    first = linear.weight.numpy().copy()
    assert np.array_equal(init.linear_init_(linear, generator=0).weight.numpy(), first)
    init.conv_init_(paddle.nn.Conv1D(2, 3, 1, bias_attr=False))
    for wrong in (lambda: init.linear_init_(conv), lambda: init.conv_init_(linear)):
        with pytest.raises(init.InvalidInit, match=r"is not a paddle\.nn\."):
            wrong()
