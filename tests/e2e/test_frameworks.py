"""PyTorch against PaddlePaddle: the project that `paralign init` writes, and live objects."""

from __future__ import annotations

import json

import numpy as np
import pytest

from paralign import Side, check
from paralign.api import check_project

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]


@pytest.fixture(scope="module")
def template(tmp_path_factory):
    from paralign.run.template import write

    folder = tmp_path_factory.mktemp("init") / "port"
    write(folder)
    return folder


def verdicts(folder):
    return {s["name"]: s["verdict"] for s in json.loads((folder / "result" / "report.json").read_text())["stages"]}


def test_the_project_of_init_is_aligned_as_it_is(run, template):
    done = run("check", template)
    assert done.code == 0, done.out + done.err
    found = verdicts(template)
    assert {s for s, v in found.items() if v == "aligned"} == {"weights", "forward", "metric", "loss", "backward"}
    assert "inherent: PyTorch keeps the unbiased running variance" in done.out
    names = {p.name for p in (template / "result").glob("*.npy")}
    assert {"forward_ref.npy", "forward_paddle.npy", "losses_ref.npy", "losses_paddle.npy"} <= names
    losses = np.load(template / "result" / "losses_ref.npy", allow_pickle=True).tolist()
    assert list(losses) == ["loss_0", "lr_0", "loss_1", "lr_1", "loss_2", "lr_2"]
    assert float(losses["lr_2"]) == pytest.approx(0.01)


def test_strict_lets_inherent_differences_diverge(run, template):
    done = run("check", template, "backward", "--strict", "--out", template / "strict")
    assert done.code == 1
    assert "buffer_0 1.running_var (train)" in done.out


MISTAKES = {
    "exclusive": ("padding=1, exclusive=False", "padding=1", {"forward", "backward"}),
    "momentum": ("momentum=0.9", "momentum=0.8", {"backward"}),
    "weight decay": ("weight_decay=1e-4", "weight_decay=1e-5", {"backward"}),
    "schedule": ("step_size=2", "step_size=1", {"backward"}),
    "loss": ("cross_entropy(outputs, labels)", "cross_entropy(outputs, labels, label_smoothing=0.01)", {"loss", "backward"}),
    "running statistics": ("BatchNorm2D(8)", "BatchNorm2D(8, momentum=0.1)", {"backward"}),
    "epsilon": ("BatchNorm2D(8)", "BatchNorm2D(8, epsilon=1e-3)", {"forward", "backward"}),
}


@pytest.mark.parametrize("mistake", MISTAKES)
@pytest.mark.usefixtures("standing_workers")
def test_a_porting_mistake_shows_in_its_stage(template, mistake):
    old, new, expected = MISTAKES[mistake]
    candidate = template / "candidate.py"
    text = candidate.read_text()
    assert old in text
    candidate.write_text(text.replace(old, new))
    try:
        result, _ = check_project(template)
    finally:
        candidate.write_text(text)
    assert {stage.name for stage in result.stages if stage.verdict == "diverged"} == expected


# -- live objects ------------------------------------------------------------------------------------------------------------


def torch_net():
    torch.manual_seed(0)
    return torch.nn.Sequential(
        torch.nn.Conv2d(3, 4, 3), torch.nn.BatchNorm2d(4), torch.nn.GELU(), torch.nn.Flatten(), torch.nn.Linear(144, 5)
    )


def paddle_net(**options):
    nn = paddle.nn
    return nn.Sequential(nn.Conv2D(3, 4, 3), nn.BatchNorm2D(4), nn.GELU(**options), nn.Flatten(), nn.Linear(144, 5))


def images():
    return np.random.RandomState(1).randn(3, 3, 8, 8).astype("float32")


def sides(port):
    cross = torch.nn.functional.cross_entropy
    return (
        Side(model=torch_net(), loss=cross, optimizer=lambda p: torch.optim.SGD(p, lr=0.1)),
        Side(model=port, loss=paddle.nn.functional.cross_entropy, optimizer=lambda p: paddle.optimizer.SGD(0.1, parameters=p)),
    )


def test_live_objects_are_checked_in_one_process_and_given_back():
    reference, candidate = sides(paddle_net())
    before = [p.detach().numpy().copy() for p in reference.model.parameters()], [p.numpy().copy() for p in candidate.model.parameters()]
    result = check(reference, candidate, inputs=images(), labels=np.array([0, 1, 4]))
    assert result.verdict == "aligned"
    assert {s.name for s in result.stages if s.verdict == "aligned"} == {"weights", "forward", "loss", "backward"}
    assert json.loads(result.to_json())["verdict"] == "aligned"
    for tensor, old in zip(reference.model.parameters(), before[0], strict=True):
        assert tensor.dtype == torch.float32
        np.testing.assert_array_equal(tensor.detach().numpy(), old)
    for tensor, old in zip(candidate.model.parameters(), before[1], strict=True):
        assert tensor.dtype == paddle.float32
        np.testing.assert_array_equal(tensor.numpy(), old)
    assert reference.model.training


def test_the_first_diverging_module_is_named():
    reference, candidate = sides(paddle_net(approximate=True))
    result = check(reference, candidate, inputs=images(), stages=["forward"])
    assert result.verdict == "diverged"
    divergence = result["forward"].divergence
    assert divergence.candidate.name == "2"
    assert divergence.candidate.op == "gelu (GELU)"
    assert divergence.reference.name == "2"
    assert divergence.last_agreeing
    assert divergence.confirmed


def test_weights_as_they_are_are_compared_and_not_copied():
    reference, candidate = sides(paddle_net())
    result = check(reference, candidate, inputs=images(), stages=["weights", "forward"], weights="as-is")
    assert result["weights"].verdict == "diverged"
    assert result["forward"].verdict == "diverged"


def test_inputs_by_keyword_and_by_position():
    class Two(torch.nn.Module):
        def forward(self, x, y):
            return {"sum": x + 2 * y}

    class Port(paddle.nn.Layer):
        def forward(self, x, y):
            return {"sum": x + 2 * y}

    x, y = images(), 3 * images()
    for inputs in ((x, y), {"y": y, "x": x}):
        assert check(Side(model=Two()), Side(model=Port()), inputs=inputs, stages=["forward"]).verdict == "aligned"


def test_two_precisions_of_one_framework():
    low = torch_net().to(torch.bfloat16)
    result = check(Side(model=torch_net()), Side(model=low), inputs=images(), stages=["forward"])
    assert result["forward"].verdict in {"aligned", "diverged"}
    assert result["forward"].pairs[0].stats.count == 15


def test_an_exception_of_a_live_side_is_a_verdict_with_its_traceback():
    class Broken(paddle.nn.Layer):
        def forward(self, x):
            raise ValueError("no such layer")

    result = check(Side(model=torch_net()), Side(model=Broken()), inputs=images(), stages=["forward"])
    assert result.verdict == "error"
    failure = result["forward"].failure
    assert failure["side"] == "candidate"
    assert "no such layer" in failure["message"]
    assert "Broken" in failure["traceback"] or "forward" in failure["traceback"]


def test_dropout_as_a_layer_and_as_a_function_are_compared_with_the_same_draws():
    class Functional(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(6, 3)

        def forward(self, x):
            return torch.nn.functional.dropout(self.fc(x), 0.5, self.training)

    class Layered(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.fc, self.drop = paddle.nn.Linear(6, 3), paddle.nn.Dropout(0.5)

        def forward(self, x):
            return self.drop(self.fc(x))

    reference, candidate = sides(Layered())
    reference.model = Functional()
    x = np.random.RandomState(0).randn(4, 6).astype("float32")
    result = check(reference, candidate, inputs=x, labels=np.array([0, 1, 2, 0]), stages=["backward"])
    assert result["backward"].verdict == "aligned"
    assert result["backward"].warnings == []
    assert any(p.key == "gradient_0 fc.weight (train)" for p in result["backward"].pairs)


@pytest.mark.parametrize(("arguments", "told"), [
    ({"stages": ["forwards"]}, "did you mean 'forward'"),
    ({"weights": "maybe"}, "is not a choice"),
])  # fmt: skip
def test_wrong_arguments_are_told(arguments, told):
    from paralign.errors import UsageError

    reference, candidate = sides(paddle_net())
    with pytest.raises(UsageError, match=told):
        check(reference, candidate, inputs=images(), **arguments)
    with pytest.raises(UsageError, match="must be a Side"):
        check(reference.model, candidate)


WIDTH = 32


class Attention(torch.nn.Module):
    """One attention block, in the order of its reference."""

    def __init__(self):
        super().__init__()
        self.att = torch.nn.MultiheadAttention(WIDTH, 4, batch_first=True)
        self.norm, self.ff, self.head = torch.nn.LayerNorm(WIDTH), torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, 5)

    def forward(self, x):
        x = self.norm(x + self.att(x, x, x, need_weights=False)[0])
        return self.head(torch.nn.functional.gelu(self.ff(x)).mean(1))


class Renamed(paddle.nn.Layer):
    """The same block with other names, another definition order and projections that are not packed."""

    def __init__(self):
        super().__init__()
        self.out, self.mlp = paddle.nn.Linear(WIDTH, 5), paddle.nn.Linear(WIDTH, WIDTH)
        self.ln, self.self_attn = paddle.nn.LayerNorm(WIDTH), paddle.nn.MultiHeadAttention(WIDTH, 4)

    def forward(self, x):
        x = self.ln(x + self.self_attn(x, x, x))
        return self.out(paddle.nn.functional.gelu(self.mlp(x)).mean(1))


def test_packed_and_renamed_weights_are_mapped_and_proven_and_trained_alike():
    torch.manual_seed(0)
    reference, candidate = sides(Renamed())
    reference.model = Attention()
    x = np.random.RandomState(0).randn(4, 7, WIDTH).astype("float32")
    result = check(reference, candidate, inputs=x, labels=np.arange(4), stages=["weights", "forward", "loss", "backward"])
    assert result.verdict == "aligned", result.to_json()[:2000]
    assert any(note.startswith("proven: ") for note in result["weights"].notes)
    pairs = {p.key: p for p in result["backward"].pairs}
    assert pairs["gradient_0 att.in_proj_weight"].stats.count == 3 * WIDTH * WIDTH
