"""Static programs of Paddle's beside a model of PyTorch's: values and gradients are fetched by name and compared."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.errors import UsageError
from paralign.model import ALIGNED, DIVERGED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [
    pytest.mark.torch,
    pytest.mark.paddle,
    pytest.mark.filterwarnings("ignore:Tensor do not have 'place' interface:UserWarning"),  # Paddle's own, when it makes gradients
]

X = np.random.RandomState(0).normal(size=(4, 3)).astype("float32")
WEIGHT = np.random.RandomState(1).normal(size=(3, 2)).astype("float32")


def program(factor=2.0, fetch=("loss", "x@GRAD", "weight@GRAD"), loss=True, weight=WEIGHT):
    from paralign.adapters.static import StaticProgram

    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [None, 3])
            x.stop_gradient = False
            made = paddle.static.create_parameter([3, 2], "float32", name="weight")
            total = paddle.mean(paddle.tanh(paddle.matmul(x, made)) ** factor)
    finally:
        paddle.disable_static()
    known = {"loss": total, "x@GRAD": x, "weight@GRAD": made}
    wanted = {name: known.get(name, name) for name in fetch}
    return StaticProgram(main, startup, ["x"], wanted, loss=total if loss else None, parameters={"weight": weight})


def reference():
    def run(x):
        given = torch.tensor(x, requires_grad=True)
        weight = torch.tensor(WEIGHT, requires_grad=True)
        loss = (torch.tanh(given @ weight) ** 2).mean()
        loss.backward()
        return {"loss": loss.detach().numpy(), "x@GRAD": given.grad.numpy(), "weight@GRAD": weight.grad.numpy()}

    return run


def checked(**changed):
    sides = Side(framework="numpy", model=reference()), Side(framework="numpy", model=program(**changed))
    return check(*sides, inputs=X, stages=["forward"])["forward"]


def test_values_and_gradients_of_a_right_program_are_aligned():
    result = checked()
    assert result.verdict == ALIGNED, result.notes
    assert {pair.key.partition(".")[2] for pair in result.pairs} >= {"loss", "x@GRAD", "weight@GRAD"}
    assert paddle.in_dynamic_mode()


def test_a_wrong_program_diverges_in_value_and_gradient():
    result = checked(factor=2.01)
    assert result.verdict == DIVERGED
    assert sum(pair.verdict == DIVERGED for pair in result.pairs) >= 1


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        ({"loss": False}, "no loss was given"),
        ({"fetch": ("nothing",)}, "the program has no variable 'nothing'"),
        ({"weight": WEIGHT.T}, r"weight has shape \[3, 2\]"),
    ],
)
def test_what_cannot_be_fetched_is_one_clear_line(changed, said):
    with pytest.raises(UsageError, match=said):
        program(**changed)
    assert paddle.in_dynamic_mode()


def cut_program(kind):
    from paralign.adapters.static import StaticProgram

    paddle.enable_static()
    try:
        main, startup = paddle.static.Program(), paddle.static.Program()
        with paddle.static.program_guard(main, startup):
            x = paddle.static.data("x", [None, 3])
            x.stop_gradient = kind == "data"
            beside = paddle.static.create_parameter([3, 2], "float32", name="beside")
            inner = paddle.matmul(x, paddle.static.create_parameter([3, 2], "float32", name="weight"))
            inner = paddle.tanh(inner.detach() if kind == "detach" else inner)
            inner.stop_gradient = kind == "flag"
            total = paddle.mean(inner * (inner.detach() if kind == "branch" else 1.0))
    finally:
        paddle.disable_static()
    return StaticProgram(main, startup, ["x"], {"loss": total, "x@GRAD": beside if kind == "apart" else x}, loss=total)


@pytest.mark.parametrize(
    ("kind", "said"),
    [
        ("flag", r"the gradient ends before it, stop_gradient is set on the result of tanh, .*test_static_programs\.py:\d+"),
        ("detach", r"the gradient ends before it, stop_gradient is set on the result of share_data_, .*test_static_programs\.py:\d+"),
        ("data", "no gradient is asked of it"),
        ("apart", "the loss does not depend on what x@GRAD is the gradient of"),
    ],
)
def test_a_gradient_that_is_cut_is_named_with_its_operation_and_line(kind, said):
    with pytest.raises(UsageError, match=said):
        cut_program(kind)
    assert paddle.in_dynamic_mode()


@pytest.mark.parametrize("kind", ["none", "branch"])
def test_a_program_whose_gradient_has_a_way_is_no_error(kind):
    assert np.isfinite(cut_program(kind)(X)["x@GRAD"]).all()


# -- what to_static translates ---------------------------------------------------------------------------------------------------

CUT = """
import paddle
from paddle import nn


class Net(nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second = nn.Linear(6, 8), nn.Linear(8, 3)

    {decorator}
    def forward(self, x):
        inner = paddle.tanh(self.first(x))
        {cut}
        return self.second(inner)


def build_model():
    return {made}


def loss(outputs, labels):
    return nn.functional.cross_entropy(outputs, labels)


def build_optimizer(model):
    return paddle.optimizer.SGD(0.1, model.parameters())
"""
WHOLE = (
    CUT.replace("{decorator}", "").replace("{cut}", "").replace("{made}", "seeded()").replace("nn.Layer", "nn.Module")
    .replace("import paddle\nfrom paddle import nn", "import torch\nfrom torch import nn").replace("paddle.tanh", "torch.tanh")
    .replace("paddle.optimizer.SGD(0.1, model.parameters())", "torch.optim.SGD(model.parameters(), 0.1)")
    + "\n\ndef seeded():\n    torch.manual_seed(0)\n    return Net()\n"
)  # fmt: skip
TOML = (
    '[reference]\nframework = "torch"\n[candidate]\nframework = "paddle"\n[inputs]\nshape = [4, 6]\n'
    '[labels]\nshape = [4]\ndtype = "int64"\nhigh = 3\n'
)


@pytest.mark.parametrize(
    ("decorator", "made", "cut"),
    [
        ("", "paddle.jit.to_static(Net())", "inner.stop_gradient = True"),
        ("", "paddle.jit.to_static(Net(), full_graph=True)", "inner = inner.detach()"),
        ("@paddle.jit.to_static(full_graph=True)", "Net()", "inner.stop_gradient = True"),
    ],
)
def test_a_gradient_that_is_cut_in_a_translated_program_has_its_line(tmp_path, decorator, made, cut):
    (tmp_path / "reference.py").write_text(WHOLE)
    (tmp_path / "candidate.py").write_text(CUT.format(decorator=decorator, made=made, cut=cut))
    (tmp_path / "paralign.toml").write_text(TOML)
    result = _backward(tmp_path)
    assert (result.verdict, result.divergence.what, result.divergence.candidate.code) == (DIVERGED, "detached", cut)


@pytest.mark.parametrize("made", ["paddle.jit.to_static(Net())", "paddle.jit.to_static(Net(), full_graph=True)"])
def test_a_translated_program_that_cuts_nothing_is_aligned(tmp_path, made):
    (tmp_path / "reference.py").write_text(WHOLE)
    (tmp_path / "candidate.py").write_text(CUT.format(decorator="", made=made, cut="inner.stop_gradient = False"))
    (tmp_path / "paralign.toml").write_text(TOML + '[backward]\nmodes = ["train"]\n')
    assert _backward(tmp_path).verdict == ALIGNED


def _backward(folder):
    from paralign.api import check_project

    return check_project(folder, ["backward"])[0]["backward"]


def test_translation_is_on_again_after_watching():
    translated = paddle.jit.to_static(lambda x: x + 1, full_graph=True)
    with _watching():
        assert not _translates()
        assert translated(paddle.ones([2])).tolist() == [2.0, 2.0]
    assert _translates()
    paddle.jit.enable_to_static(False)
    try:
        with _watching():
            pass
        assert not _translates()
    finally:
        paddle.jit.enable_to_static(True)


def _translates():
    from paddle.jit.dy2static.program_translator import ProgramTranslator

    return ProgramTranslator().enable_to_static


def _watching():
    from contextlib import contextmanager

    from paralign.adapters._paddle_operations import _PATCHES

    @contextmanager
    def watching():
        _PATCHES.install()
        try:
            yield
        finally:
            _PATCHES.remove()

    return watching()


def test_another_number_of_arrays_is_refused():
    with pytest.raises(UsageError, match="takes 1 arrays, 2 were given"):
        program()(X, X)
