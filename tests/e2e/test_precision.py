"""What a check says of precision: where float64 itself rounds, what only the native run shows, what tiny values hide."""

from __future__ import annotations

import math

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

RANDOM = np.random.default_rng(0)


def both(reference, candidate, *stages, inputs=None, **functions):
    """A check of two live sides in float32 on one small batch."""
    inputs = RANDOM.standard_normal((4, 64)).astype("float32") if inputs is None else inputs
    sides = [
        Side(framework=framework, functions={"build_model": build}, **{n: f[at] for n, f in functions.items()})
        for at, (framework, build) in enumerate((("torch", reference), ("paddle", candidate)))
    ]
    return check(*sides, inputs=inputs, labels=np.arange(len(inputs)), stages=["weights", *stages])


def said(stage):
    return " ".join([*stage.notes, *stage.warnings, *(f.cause for f in stage.findings)])


# -- updates that are tiny beside the weights ------------------------------------------------------------------------------------


def tiny(size, factor=1.0):
    """A head whose gradients are scaled down, trained by both frameworks' own SGD."""

    def losses(package):
        return lambda outputs, labels: size * package.nn.functional.cross_entropy(outputs, labels)

    def torch_sgd(parameters):
        return torch.optim.SGD(parameters, lr=1e-3, momentum=0.9)

    def paddle_sgd(parameters):
        return paddle.optimizer.Momentum(learning_rate=factor * 1e-3, momentum=0.9, parameters=parameters)

    models = [
        lambda: torch.nn.Sequential(torch.nn.Linear(64, 32), torch.nn.ReLU(), torch.nn.Linear(32, 10)),
        lambda: paddle.nn.Sequential(paddle.nn.Linear(64, 32), paddle.nn.ReLU(), paddle.nn.Linear(32, 10)),
    ]
    return both(*models, "backward", loss=(losses(torch), losses(paddle)), optimizer=(torch_sgd, paddle_sgd))["backward"]


@pytest.mark.parametrize("size", [1e-6, 1e-9, 1e-11])
def test_a_right_port_with_tiny_updates_is_aligned(size):
    result = tiny(size)
    assert result.verdict == ALIGNED, said(result)
    assert "move alike" not in said(result)


@pytest.mark.parametrize("size", [1e-6, 1e-9])
def test_another_rate_shows_in_tiny_updates(size):
    result = tiny(size, factor=1.5)
    assert result.verdict == "diverged"
    assert "learning rate" in said(result)


def test_updates_below_the_last_bit_of_the_weights_prove_nothing():
    result = tiny(1e-16)
    assert result.verdict == "underpowered"
    assert "the update was not tested" in said(result)


# -- what the port builds itself --------------------------------------------------------------------------------------------------


def table(base):
    return np.cos(np.arange(8)[:, None] / base ** (np.arange(0, 16) / 16)).astype("float32")


class Reference(torch.nn.Module):
    """A table of positions, a random projection, a mask, a frozen parameter."""

    def __init__(self, base=10000.0, *, persistent=True):
        super().__init__()
        self.fc = torch.nn.Linear(16, 16)
        self.norm = torch.nn.BatchNorm1d(8)
        self.register_buffer("pos", torch.tensor(table(base)), persistent=persistent)
        self.register_buffer("drawn", torch.randn(16, 16))
        self.register_buffer("mask", torch.triu(torch.full((8, 8), float("-inf")), 1))
        self.fixed = torch.nn.Parameter(torch.tensor(table(500.0)), requires_grad=False)

    def forward(self, x):
        x = self.norm(self.fc(x + self.pos + self.fixed)) @ self.drawn
        return torch.softmax(x @ x.transpose(1, 2) + self.mask, -1) @ x


class Port(paddle.nn.Layer):
    """The same, its mask with another number for what is masked."""

    def __init__(self, base=10000.0, fixed=500.0, *, persistent=True):
        super().__init__()
        self.fc = paddle.nn.Linear(16, 16)
        self.norm = paddle.nn.BatchNorm1D(8)
        self.register_buffer("pos", paddle.to_tensor(table(base)), persistable=persistent)
        self.register_buffer("drawn", paddle.randn([16, 16]))
        self.register_buffer("mask", paddle.triu(paddle.full([8, 8], -1e9), 1))
        self.fixed = paddle.create_parameter([8, 16], "float32", default_initializer=paddle.nn.initializer.Assign(table(fixed)))
        self.fixed.stop_gradient = True

    def forward(self, x):
        x = self.norm(self.fc(x + self.pos + self.fixed)) @ self.drawn
        return paddle.nn.functional.softmax(x @ x.transpose([0, 2, 1]) + self.mask, -1) @ x


POSITIONS = np.random.default_rng(1).standard_normal((2, 8, 16)).astype("float32")


def weights(reference, candidate):
    return both(reference, candidate, inputs=POSITIONS)["weights"]


def test_what_both_sides_build_alike_is_aligned():
    result = weights(Reference, Port)
    assert result.verdict == ALIGNED, said(result)
    assert "both sides construct, compared before the reference's were copied: 3" in said(result)


@pytest.mark.parametrize("wrong", [{"base": 1000.0}, {"fixed": 400.0}, {"base": 9900.0, "persistent": False}])
def test_a_table_that_the_port_builds_wrongly_diverges(wrong):
    result = weights(lambda: Reference(persistent=wrong.get("persistent", True)), lambda: Port(**wrong))
    assert result.verdict == "diverged"
    bad = [p.reference.name for p in result.pairs if p.verdict == "diverged"]
    assert bad == (["fixed"] if "fixed" in wrong else ["pos"])
    if "base" in wrong:
        assert 'register_buffer("pos"' in result.divergence.candidate.code


def test_tables_that_a_checkpoint_brings_are_its_own():
    state = Reference(500.0).state_dict()

    def loaded():
        model = Reference()
        model.load_state_dict(state)
        return model

    assert weights(loaded, Port).verdict == ALIGNED


def test_a_model_that_was_there_before_leaves_open_what_a_table_is():
    torch.manual_seed(0)
    sides = Side(model=Reference()), Side(model=Port(1000.0))
    result = check(*sides, inputs=POSITIONS, stages=["weights"])["weights"]
    assert result.verdict == "underpowered"
    assert "pos" in said(result)
    assert "build_model" in said(result)


class Centred(torch.nn.Module):
    """Keeps a mean of what it has seen, in train mode or while it is told to; scales by a constant."""

    def __init__(self, start=0.0, scale=2.0, *, always=True):
        super().__init__()
        self.fc, self.always, self.collecting = torch.nn.Linear(16, 4), always, False
        self.register_buffer("seen", torch.full((16,), start))
        self.register_buffer("scale", torch.full((16,), scale))

    def forward(self, x):
        if self.collecting or (self.training and self.always):
            self.seen.lerp_(x.detach().mean((0, 1)), 0.1)
        return self.fc((x - self.seen) * self.scale)


class CentredPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.fc = paddle.nn.Linear(16, 4)
        self.register_buffer("seen", paddle.zeros([16]))
        self.register_buffer("scale", paddle.full([16], 2.0))

    def forward(self, x):
        if self.training:
            self.seen.set_value(0.9 * self.seen + 0.1 * x.detach().mean([0, 1]))
        return self.fc((x - self.seen) * self.scale)


def warmed(model):
    """A model that build_model() has run on data."""
    model.collecting = True
    model(torch.tensor(POSITIONS) if isinstance(model, torch.nn.Module) else paddle.to_tensor(POSITIONS))
    model.collecting = False
    return model


@pytest.mark.parametrize(
    "builders",
    [(lambda: warmed(Centred()), CentredPort), (Centred, lambda: warmed(CentredPort())), (lambda: warmed(Centred(scale=3.0)), CentredPort)],
)
def test_statistics_that_training_changes_are_not_built_but_constants_beside_them_are(builders):
    result = weights(*builders)
    wrong = [p.reference.name for p in result.pairs if p.verdict != ALIGNED]
    assert wrong == (["scale"] if builders[0]().scale[0] == 3.0 else []), said(result)
    assert "training changes it" in said(result)


def filled(model):
    """A model whose constants build_model() sets: nothing was run."""
    model.seen.copy_(torch.linspace(0, 1, 16))
    return model


def alone(reference, candidate=lambda: Centred(always=False)):
    sides = [Side(framework="torch", functions={"build_model": build}) for build in (reference, candidate)]
    return check(*sides, inputs=POSITIONS, stages=["weights"])["weights"]


def test_statistics_of_a_calibration_in_build_model_are_not_built():
    result = alone(lambda: warmed(Centred(always=False)))
    assert result.verdict == ALIGNED, said(result)
    assert "build_model() has run the model, which changed it" in said(result)


def test_statistics_that_start_at_another_value_and_constants_set_in_place_are_still_compared():
    assert alone(Centred, lambda: Centred(0.5)).verdict == "diverged"
    assert alone(lambda: filled(Centred(always=False))).verdict == "underpowered"


# -- what the sides compute in as they are ----------------------------------------------------------------------------------------


class Layers(torch.nn.Module):
    def __init__(self, low="", training=True):
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 32), torch.nn.Linear(32, 10)
        self.low, self.when = low, training

    def forward(self, x):
        if self.low == "autocast" and self.training >= self.when:
            with torch.autocast("cpu", dtype=torch.bfloat16):
                return self.second(self.first(x)).to(x.dtype)
        if self.low == "cast" and x.dtype == torch.float32:
            weight = self.first.weight.to(torch.float16)
            x = torch.nn.functional.linear(x.to(torch.float16), weight).float() + self.first.bias
            return self.second(x)
        if self.low == "single":
            return self.second((x.float() @ self.first.weight.T.float()).double() + self.first.bias)
        return self.second(self.first(x))


def lower(reference, candidate, *stages, **functions):
    sides = [Side(framework="torch", functions={"build_model": build}, **functions) for build in (reference, candidate)]
    inputs = np.random.default_rng(0).standard_normal((16, 64)).astype("float32")
    return check(*sides, inputs=inputs, labels=np.arange(16) % 10, stages=["weights", *stages])


def always(low):
    return lambda: Layers(low, training=False)


@pytest.mark.parametrize(("low", "line"), [("autocast", "with torch.autocast"), ("cast", "torch.nn.functional.linear(x.to(torch.float16)")])
def test_a_lower_precision_in_the_port_alone_diverges(low, line):
    result = lower(always(""), always(low), "forward")["forward"]
    assert (result.verdict, result.method) == ("diverged", "float64")
    assert result.divergence.what == "precision"
    assert line in result.divergence.candidate.code
    assert result.divergence.candidate.arguments["dtype"] in ("bfloat16", "float16")


class Cast(torch.nn.Module):
    """Four outputs; what a cast within does to them, and where, ``how`` says."""

    def __init__(self, how=""):
        super().__init__()
        self.first, self.second, self.how, self.seen = torch.nn.Linear(64, 8), torch.nn.Linear(8, 4), how, []

    def forward(self, x):
        x = torch.relu(self.first(x))
        native = x.dtype == torch.float32
        if self.how == "inside" and native:
            x = x.half().float()
        if self.how == "exact" and native:
            x = x * (x > 0).float().half().float()
        if self.how == "log" and native:
            self.seen.append(x.half().float().mean())
        x = self.second(x)
        return x.bfloat16().float() if self.how == "end" and native else x


def small(reference, candidate):
    sides = [Side(framework="torch", functions={"build_model": lambda how=how: Cast(how)}) for how in (reference, candidate)]
    inputs = np.random.default_rng(0).standard_normal((1, 64)).astype("float32")
    return check(*sides, inputs=inputs, stages=["weights", "forward"])["forward"]


@pytest.mark.parametrize(("how", "line"), [("inside", "x = x.half().float()"), ("end", "return x.bfloat16().float()")])
def test_a_cast_to_a_lower_precision_and_back_shows_in_few_outputs(how, line):
    result = small("", how)
    assert (result.verdict, result.divergence.what) == ("diverged", "precision")
    assert line in result.divergence.candidate.code


@pytest.mark.parametrize("how", ["exact", "log"])
def test_a_cast_that_loses_no_digits_or_is_not_used_is_no_difference(how):
    assert small("", how).verdict == ALIGNED


def test_the_same_cast_on_both_sides_is_aligned_and_one_of_the_reference_told():
    assert small("inside", "inside").verdict == ALIGNED
    assert "lower precision than its weights have, the candidate none" in said(small("inside", ""))


def test_a_cast_and_back_in_paddle_shows():
    class Port(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.first, self.second = paddle.nn.Linear(64, 8), paddle.nn.Linear(8, 4)

        def forward(self, x):
            x = paddle.nn.functional.relu(self.first(x))
            if x.dtype == paddle.float32:
                x = x.astype("float16").astype("float32")
            return self.second(x)

    result = both(Cast, Port, "forward", inputs=np.random.default_rng(0).standard_normal((1, 64)).astype("float32"))["forward"]
    assert (result.verdict, result.divergence.what) == ("diverged", "precision")
    assert 'x.astype("float16")' in result.divergence.candidate.code


def test_float32_inside_a_model_of_float64_diverges():
    result = lower(lambda: Layers().double(), lambda: Layers("single").double(), "forward")["forward"]
    assert (result.verdict, result.divergence.what) == ("diverged", "precision")


def test_the_same_lower_precision_on_both_sides_is_aligned():
    assert lower(always("autocast"), always("autocast"), "forward")["forward"].verdict == ALIGNED


def test_a_lower_precision_in_the_reference_alone_is_told():
    result = lower(always("autocast"), always(""), "forward")["forward"]
    assert "in a lower precision than its weights have, the candidate none: first (bfloat16)" in said(result)


def test_a_lower_precision_in_training_alone_diverges():
    result = lower(Layers, lambda: Layers("autocast"), "forward", "backward", loss=torch.nn.functional.cross_entropy)
    assert result["forward"].verdict == ALIGNED
    assert result["backward"].verdict == "diverged"
    assert "as they are, the candidate is further from the reference" in said(result["backward"])


def rounding(dtype):
    """Hands values through; its gradient is rounded to a type, in float32 alone."""

    class Rounding(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.view_as(x)

        @staticmethod
        def backward(_, gradient):
            return gradient.to(dtype).float() if gradient.dtype == torch.float32 else gradient

    return torch.nn.Sequential(torch.nn.Linear(64, 32), type("Handing", (torch.nn.Module,), {"forward": lambda _, x: Rounding.apply(x)})())


@pytest.mark.parametrize(("dtype", "verdict"), [(torch.bfloat16, "diverged"), (torch.float16, "diverged"), (torch.float32, ALIGNED)])
def test_a_lower_precision_of_gradients_alone_diverges(dtype, verdict):
    sides = (lambda: rounding(torch.float32)), (lambda: rounding(dtype))
    result = lower(*sides, "forward", "backward", loss=torch.nn.functional.cross_entropy)
    assert result["forward"].verdict == ALIGNED
    assert result["backward"].verdict == verdict
    assert ("a lower precision in the backward pass alone?" in said(result["backward"])) is (verdict != ALIGNED)


def test_a_lower_precision_of_gradients_behind_many_kinks_diverges():
    """Inputs moved by rounding pass some of the kinks: the candidate is as far away on either side of them."""

    def deep(dtype):
        layers = [layer for _ in range(6) for layer in (torch.nn.Linear(64, 64), torch.nn.ReLU())]
        return torch.nn.Sequential(*layers, *rounding(dtype))

    sides = (lambda: deep(torch.float32)), (lambda: deep(torch.bfloat16))
    result = lower(*sides, "forward", "backward", loss=torch.nn.functional.cross_entropy)
    assert result["backward"].verdict == "diverged"


class Normed(torch.nn.Module):
    """Normalises in float32 whatever it is given, by one of two formulas."""

    def __init__(self, *, moments=False, factor=1.0):
        super().__init__()
        self.first, self.second = torch.nn.Linear(64, 32), torch.nn.Linear(32, 10)
        self.moments, self.factor = moments, factor

    def forward(self, x):
        x = self.first(x) + 3.0
        single = x.float()
        mean = single.mean(-1, keepdim=True)
        centred = single - mean
        spread = (single * single).mean(-1, keepdim=True) - mean * mean if self.moments else (centred * centred).mean(-1, keepdim=True)
        return self.second((centred / torch.sqrt(spread + 1e-5)).type_as(x) * self.factor)


def sgd(parameters):
    return torch.optim.SGD(parameters, lr=0.1)


def test_float64_runs_that_round_to_float32_inside_are_judged_by_what_that_does():
    stages = {"loss": torch.nn.functional.cross_entropy, "optimizer": sgd}
    right = lower(Normed, lambda: Normed(moments=True), "forward", "backward", **stages)
    for name in ("forward", "backward"):
        assert right[name].verdict == ALIGNED, said(right[name])
        assert right[name].worst.ratio > 1, "float64's own limit would have accused it"
        assert "float64, partly in lower precision" in right[name].method
        assert (
            "the candidate computes in lower precision even where everything is float64, in the model (float32, test_precision.py:"
            in said(right[name])
        )
    for factor in (1 + 2e-5, 1 + 1e-3):
        wrong = lower(Normed, lambda factor=factor: Normed(moments=True, factor=factor), "forward", "backward", **stages)
        assert [wrong[name].verdict for name in ("forward", "backward")] == ["diverged"] * 2


# -- what tiny values hide --------------------------------------------------------------------------------------------------------


def gated(package, norm, scale):
    """A norm in front of weights that hardly use it, as a new gMLP has them."""

    class Gate(package.nn.Module if package is torch else package.nn.Layer):
        def __init__(self):
            super().__init__()
            self.norm, self.proj = norm(), package.nn.Linear(32, 32)
            with package.no_grad():
                self.proj.weight.copy_(self.proj.weight * scale) if package is torch else self.proj.weight.set_value(
                    self.proj.weight * scale
                )

        def forward(self, x):
            return x * (1.0 + self.proj(self.norm(x)))

    return Gate


@pytest.mark.parametrize(("epsilon", "verdict"), [(1e-5, ALIGNED), (1e-6, "diverged")])
def test_an_epsilon_before_tiny_weights(epsilon, verdict):
    reference = gated(torch, lambda: torch.nn.LayerNorm(32), 1e-6)
    candidate = gated(paddle, lambda: paddle.nn.LayerNorm(32, epsilon=epsilon), 1e-6)
    inputs = np.random.default_rng(0).standard_normal((4, 16, 32)).astype("float32")
    result = both(reference, candidate, "forward", inputs=inputs)["forward"]
    assert result.verdict == verdict, said(result)
    if verdict == "diverged":
        assert result.divergence.candidate.arguments["epsilon"] == epsilon
        assert result.worst.ratio < 0.01, "the outputs do not show it"


def overflowing():
    """Hands values through; in float32 its gradient is infinite."""

    class Overflow(torch.autograd.Function):
        @staticmethod
        def forward(_, x):
            return x.view_as(x)

        @staticmethod
        def backward(_, gradient):
            return gradient * 1e30 * 1e30 if gradient.dtype == torch.float32 else gradient

    return torch.nn.Sequential(torch.nn.Linear(64, 32), type("Handing", (torch.nn.Module,), {"forward": lambda _, x: Overflow.apply(x)})())


class BiasThrough(torch.nn.Linear):
    """A layer whose bias gets a gradient that float32 may not hold."""

    def __init__(self, *, overflows):
        super().__init__(64, 10)
        self.overflows = overflows

    def forward(self, x):
        bias = self.bias
        if self.overflows and bias.requires_grad:
            bias = bias.view_as(bias)
            bias.register_hook(lambda g: g * math.inf if g.dtype == torch.float32 else g)
        return torch.nn.functional.linear(x, self.weight, bias)


def test_a_gradient_that_overflows_on_one_side_alone_diverges():
    result = lower(
        lambda: BiasThrough(overflows=False), lambda: BiasThrough(overflows=True), "backward", loss=torch.nn.functional.cross_entropy
    )
    assert result["backward"].verdict == "diverged", said(result["backward"])


def test_gradients_that_overflow_on_both_sides_accuse_nobody():
    result = lower(overflowing, overflowing, "forward", "backward", loss=torch.nn.functional.cross_entropy)
    assert result["backward"].verdict != "diverged", said(result["backward"])
    assert "a lower precision in the backward pass alone?" not in said(result["backward"])


# -- automatic casts that a CPU does not know -------------------------------------------------------------------------------------


class TorchCast(torch.nn.Module):
    """A layer under casts for CUDA, which a CPU does not do."""

    def __init__(self, *, on):
        super().__init__()
        self.a, self.on = torch.nn.Linear(64, 10), on

    def forward(self, x):
        with torch.autocast("cuda", torch.bfloat16, enabled=self.on):
            return self.a(x)


class PaddleCast(paddle.nn.Layer):
    def __init__(self, *, on, level="O1"):
        super().__init__()
        self.a, self.on, self.level = paddle.nn.Linear(64, 10), on, level

    def forward(self, x):
        with paddle.amp.auto_cast(enable=self.on, level=self.level, dtype="bfloat16"):
            return self.a(x)


#: both frameworks warn of such casts
idle_casts = pytest.mark.filterwarnings("ignore:amp_guard can only", "ignore:.*CUDA is not available")
CASTS_LINE = PaddleCast.forward.__code__.co_firstlineno + 1


def casting(reference, **candidate):
    return both(lambda: TorchCast(on=reference), lambda: PaddleCast(**candidate), "forward")["forward"]


@idle_casts
def test_casts_of_the_candidate_alone_that_this_device_does_not_know_prove_nothing():
    result = casting(False, on=True)
    assert result.verdict == "underpowered"
    assert f"the candidate switches automatic casts on (test_precision.py:{CASTS_LINE})" in result.doubts[0]


@idle_casts
def test_casts_of_both_sides_that_this_device_does_not_know_are_noted():
    result = casting(True, on=True)
    assert result.verdict == ALIGNED
    assert [note.split(" switches automatic")[0] for note in result.notes if "switches automatic" in note] == [
        "the reference",
        "the candidate",
    ]


@idle_casts
@pytest.mark.parametrize("off", [{"on": False}, {"on": True, "level": "O0"}])
def test_casts_that_are_off_are_none(off):
    result = casting(False, **off)
    assert result.verdict == ALIGNED
    assert "automatic casts" not in said(result)
