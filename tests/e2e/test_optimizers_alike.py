"""The stage ``optimizer`` on every optimizer that PyTorch and PaddlePaddle both have: plain, with groups, with ParamAttr; and faults."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED
from paralign.stages.optimizer import stage

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")
T, P = torch.optim, paddle.optimizer
S, L = torch.optim.lr_scheduler, paddle.optimizer.lr


@pytest.fixture(autouse=True)
def _few_steps(monkeypatch):
    monkeypatch.setattr(stage, "STEPS", 200)


def reference():
    return torch.nn.Sequential(torch.nn.Linear(6, 4), torch.nn.LayerNorm(4), torch.nn.Linear(4, 3))


def port(attr=None):
    first = paddle.nn.Linear(6, 4, weight_attr=attr)
    return paddle.nn.Sequential(first, paddle.nn.LayerNorm(4), paddle.nn.Linear(4, 3))


def checked(theirs, ours, scheduler=None, attr=None, **settings):
    functions = {"build_model": reference, "build_optimizer": theirs, **({"build_scheduler": scheduler} if scheduler else {})}
    other = {"build_model": lambda: port(attr() if attr else None), "build_optimizer": ours}
    sides = Side(framework="torch", functions=functions), Side(framework="paddle", functions=other)
    return check(*sides, stages=["optimizer"], **settings)["optimizer"]


def told(result):
    return (result.verdict, [f.cause for f in result.findings], result.warnings, [p.key for p in result.pairs if p.verdict == DIVERGED])


ALIKE = {
    "SGD": (T.SGD, {"lr": 0.1, "weight_decay": 0.01}, P.SGD, {"learning_rate": 0.1, "weight_decay": 0.01}),
    "Momentum": (T.SGD, {"lr": 0.1, "momentum": 0.9, "nesterov": True}, P.Momentum, {"learning_rate": 0.1, "use_nesterov": True}),
    "Adam": (T.Adam, {"lr": 0.01, "betas": (0.8, 0.99)}, P.Adam, {"learning_rate": 0.01, "beta1": 0.8, "beta2": 0.99}),
    "Adam amsgrad": (T.Adam, {"lr": 0.01, "amsgrad": True}, P.Adam, {"learning_rate": 0.01, "amsgrad": True}),
    "AdamW": (T.AdamW, {"lr": 0.01, "weight_decay": 0.1}, P.AdamW, {"learning_rate": 0.01, "weight_decay": 0.1}),
    "Adamax": (T.Adamax, {"lr": 0.01}, P.Adamax, {"learning_rate": 0.01}),
    "Adagrad": (T.Adagrad, {"lr": 0.01, "eps": 1e-6}, P.Adagrad, {"learning_rate": 0.01}),
    "Adadelta": (T.Adadelta, {"lr": 1.0, "rho": 0.95}, P.Adadelta, {"learning_rate": 1.0}),
    "RMSprop": (
        T.RMSprop, {"lr": 0.01, "alpha": 0.95, "eps": 1e-6, "centered": True}, P.RMSProp, {"learning_rate": 0.01, "centered": True},
    ),
    "RMSprop momentum": (
        T.RMSprop, {"lr": 0.01, "alpha": 0.95, "eps": 1e-6, "momentum": 0.9}, P.RMSProp, {"learning_rate": 0.01, "momentum": 0.9},
    ),
    "NAdam": (T.NAdam, {"lr": 0.01}, P.NAdam, {"learning_rate": 0.01}),
    "RAdam": (T.RAdam, {"lr": 0.01}, P.RAdam, {"learning_rate": 0.01}),
    "Rprop": (T.Rprop, {"lr": 0.01, "step_sizes": (1e-5, 50)}, P.Rprop, {"learning_rate": 0.01, "learning_rate_range": (1e-5, 50)}),
}  # fmt: skip


@pytest.mark.parametrize("name", ALIKE)
def test_one_update_of_every_optimizer_that_both_have(name):
    theirs, settings, ours, own = ALIKE[name]
    result = checked(lambda m: theirs(m.parameters(), **settings), lambda m: ours(parameters=m.parameters(), **own))
    assert result.verdict == ALIGNED, told(result)
    assert {c.what: (c.compared, c.total) for c in result.coverage}["updates"] == (5, None)
    assert len(result.tables[-1].rows) == 1
    assert {c.what: c.compared for c in result.coverage}["states carried across"] == 2, result.notes


class Scaled(torch.nn.Module):
    """A linear layer times a number of no dimension."""

    def __init__(self):
        super().__init__()
        self.linear, self.scale = torch.nn.Linear(6, 4), torch.nn.Parameter(torch.tensor(1.5))

    def forward(self, x):
        return self.linear(x) * self.scale


class PortedScaled(paddle.nn.Layer):
    """The same, where the number is a tensor of one element."""

    def __init__(self):
        super().__init__()
        self.linear = paddle.nn.Linear(6, 4)
        self.scale = self.create_parameter([1], default_initializer=paddle.nn.initializer.Constant(1.5))

    def forward(self, x):
        return self.linear(x) * self.scale


@pytest.mark.parametrize("name", ["Adam", "Adagrad", "Momentum"])
def test_states_of_a_number_go_across_to_a_tensor_of_one_element(monkeypatch, name):
    monkeypatch.setitem(globals(), "reference", Scaled)
    monkeypatch.setitem(globals(), "port", lambda _: PortedScaled())
    theirs, settings, ours, own = ALIKE[name]
    result = checked(lambda m: theirs(m.parameters(), **settings), lambda m: ours(parameters=m.parameters(), **own))
    assert result.verdict == ALIGNED, told(result)
    assert {c.what: c.compared for c in result.coverage}["states carried across"] == 2, result.warnings


@pytest.mark.parametrize(
    "name", [n for n in ALIKE if n not in ("Rprop", "RMSprop", "RMSprop momentum")]
)  # Paddle's Rprop and RMSProp take no groups
def test_the_same_with_groups_of_their_own_rates(name):
    theirs, settings, ours, own = ALIKE[name]
    settings = {**settings, "lr": settings["lr"]}

    def groups(model):
        return theirs(
            [{"params": model[0].parameters()}, {"params": [*model[1].parameters(), *model[2].parameters()], "lr": 0.5 * settings["lr"]}],
            **settings,
        )

    def factors(model):
        rest = [*model[1].parameters(), *model[2].parameters()]
        return ours(parameters=[{"params": model[0].parameters()}, {"params": rest, "learning_rate": 0.5}], **own)

    result = checked(groups, factors)
    assert result.verdict == ALIGNED, told(result)
    assert len(result.tables[-1].rows) == 2
    assert not any("≠" in cell for row in result.tables[-1].rows for cell in row[2:])


def test_a_rate_of_its_own_by_param_attr_is_a_group_in_the_reference():
    def attr():
        return paddle.ParamAttr(learning_rate=0.1)

    def groups(model):
        rest = [model[0].bias, *model[1].parameters(), *model[2].parameters()]
        return T.Adam([{"params": [model[0].weight], "lr": 0.001}, {"params": rest}], lr=0.01)

    assert checked(groups, lambda m: P.Adam(0.01, parameters=m.parameters()), attr=attr).verdict == ALIGNED
    wrong = checked(lambda m: T.Adam(m.parameters(), lr=0.01), lambda m: P.Adam(0.01, parameters=m.parameters()), attr=attr)
    assert wrong.verdict == DIVERGED
    assert "weight_attr=attr" in wrong.divergence.candidate.code
    assert any(
        note.startswith("settings differ first at 0.weight: rate: 0.01 in the reference, 0.001 in the candidate (1 of 6")
        for note in wrong.notes
    )


def adam(model, **more):
    return T.AdamW(model.parameters(), lr=0.01, weight_decay=0.1, **more)


FAULTS = {
    "decay": (lambda m: P.AdamW(0.01, parameters=m.parameters()), "weight decay"),
    "epsilon": (lambda m: P.AdamW(0.01, epsilon=1e-6, weight_decay=0.1, parameters=m.parameters()), "epsilon"),
    "betas": (lambda m: P.AdamW(0.01, beta2=0.99, weight_decay=0.1, parameters=m.parameters()), "mean of squares"),
    "clipping": (
        lambda m: P.AdamW(0.01, weight_decay=0.1, parameters=m.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(1.0)), "clipping",
    ),
    "no decay for norms": (
        lambda m: P.AdamW(0.01, weight_decay=0.1, parameters=m.parameters(), apply_decay_param_fun=lambda n: "norm" not in n), "weight decay",
    ),
    "coupled": (lambda m: P.Adam(0.01, weight_decay=0.1, parameters=m.parameters()), "weight decay"),
    "rate": (lambda m: P.AdamW(0.011, weight_decay=0.1, parameters=m.parameters()), "rate"),
}  # fmt: skip


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_setting_is_found_with_its_line(fault):
    ours, said = FAULTS[fault]
    result = checked(adam, ours)
    assert result.verdict == DIVERGED
    assert any(said in f.cause and f.proven for f in result.findings), told(result)
    assert __file__ in result.divergence.candidate.source


def test_schedules_of_both_frameworks_followed_whole_and_resumed():
    result = checked(
        lambda m: T.SGD(m.parameters(), 0.1),
        lambda m: P.SGD(L.CosineAnnealingDecay(0.1, 90), m.parameters()),
        lambda o: S.CosineAnnealingLR(o, 90),
    )
    assert result.verdict == ALIGNED, told(result)
    assert {c.what: c.compared for c in result.coverage} == {
        "learning rates": 200,
        "resumed rates": 100,
        "parameters": 6,
        "updates": 5,
        "states carried across": 2,
    }


def test_a_schedule_class_of_paddle_that_forgets_accuses_no_port():
    result = checked(
        lambda m: T.SGD(m.parameters(), 0.1, momentum=0.9),
        lambda m: P.Momentum(L.CosineAnnealingWarmRestarts(0.1, T_0=30, T_mult=2), 0.9, m.parameters()),
        lambda o: S.CosineAnnealingWarmRestarts(o, T_0=30, T_mult=2),
    )
    assert result.verdict == ALIGNED, told(result)
    assert any("CosineAnnealingWarmRestarts of the candidate's framework does not save T_cur, T_i" in w for w in result.warnings)


def test_schedules_that_wait_for_a_metric_get_one():
    def plateau(factor):
        return lambda m: P.SGD(L.ReduceOnPlateau(0.1, factor=factor, patience=5), m.parameters())

    def theirs(optimizer):
        return S.ReduceLROnPlateau(optimizer, factor=0.5, patience=5)

    result = checked(lambda m: T.SGD(m.parameters(), 0.1), plateau(0.5), theirs)
    assert result.verdict == ALIGNED, told(result)
    assert any(note.startswith("both schedules wait for a metric, which was made up") for note in result.notes)
    assert len({row[1] for row in result.tables[0].rows}) > 2
    assert checked(lambda m: T.SGD(m.parameters(), 0.1), plateau(0.1), theirs).verdict == DIVERGED


class Forgetful(P.Adam):
    """Loses what it remembers when it is loaded."""

    def set_state_dict(self, state_dict):
        pass


def test_an_optimizer_that_is_not_resumed_is_found():
    result = checked(lambda m: T.Adam(m.parameters(), lr=0.01), lambda m: Forgetful(0.01, parameters=m.parameters()))
    assert result.verdict == DIVERGED
    assert "resumed updates of the candidate" in [p.key for p in result.pairs if p.verdict == DIVERGED]


class Unsaved:
    """Momentum, without a way to save it."""

    def __init__(self, parameters):
        self.parameters = [p for p in parameters if not p.stop_gradient]
        self.velocity = [paddle.zeros_like(p) for p in self.parameters]

    def get_lr(self):
        return 0.01

    def clear_grad(self):
        for p in self.parameters:
            p.clear_gradient()

    @paddle.no_grad()
    def step(self):
        for number, p in enumerate(self.parameters):
            self.velocity[number] = 0.9 * self.velocity[number] + p.grad
            p.set_value(p - 0.01 * self.velocity[number])


def test_an_optimizer_that_cannot_be_saved_is_a_warning():
    result = checked(lambda m: T.SGD(m.parameters(), 0.01, momentum=0.9), lambda m: Unsaved(m.parameters()))
    assert result.verdict == ALIGNED, told(result)
    assert any("the candidate's optimizer has no state_dict()" in w for w in result.warnings), told(result)


class Apart(P.Optimizer):
    """Momentum that Paddle's ``state_dict`` knows nothing of."""

    def __init__(self, parameters):
        super().__init__(learning_rate=0.01, parameters=parameters)
        self.velocity = {}

    @paddle.no_grad()
    def step(self):
        for p in self._parameter_list:
            self.velocity[p.name] = 0.9 * self.velocity.get(p.name, paddle.zeros_like(p)) + p.grad
            p.set_value(p - self.get_lr() * self.velocity[p.name])


class HalfSaved(Apart):
    """Its state has something else in it."""

    def state_dict(self):
        return {**super().state_dict(), "steps": 2}


@pytest.mark.parametrize(("kind", "verdict"), [(Apart, ALIGNED), (HalfSaved, DIVERGED)])
def test_what_no_state_dict_was_written_for_is_a_warning(kind, verdict):
    result = checked(lambda m: T.SGD(m.parameters(), 0.01, momentum=0.9), lambda m: kind(m.parameters()))
    assert result.verdict == verdict, told(result)
    warned = any("the candidate's optimizer keeps velocity beside its state_dict()" in w for w in result.warnings)
    assert warned == (verdict == ALIGNED), told(result)


class ForgetfulReference(T.SGD):
    """Loses its momentum when it is loaded."""

    def load_state_dict(self, state_dict):
        super().load_state_dict({**state_dict, "state": {}})


@pytest.mark.parametrize(("momentum", "verdict"), [(0.9, ALIGNED), (0.8, DIVERGED)])
def test_a_reference_that_is_not_resumed_as_it_was_accuses_no_port(momentum, verdict):
    result = checked(
        lambda m: ForgetfulReference(m.parameters(), 0.01, momentum=0.9), lambda m: P.Momentum(0.01, momentum, parameters=m.parameters())
    )
    assert result.verdict == verdict, told(result)
    assert any("the reference itself does not go on as it was" in warning for warning in result.warnings)
    assert not any("from the state of" in pair.key for pair in result.pairs)


def test_an_optimizer_that_needs_a_closure_is_not_called_aligned():
    result = checked(lambda m: T.LBFGS(m.parameters()), lambda m: P.LBFGS(parameters=m.parameters()))
    assert result.verdict in (UNDERPOWERED, "not tested")
    assert any("missing 1 required positional argument: 'closure'" in w for w in result.warnings), told(result)


def test_two_algorithms_of_one_name_are_told_apart():
    result = checked(lambda m: T.ASGD(m.parameters(), lr=0.1, lambd=0.1, t0=0), lambda m: P.ASGD(0.1, parameters=m.parameters()))
    assert result.verdict == DIVERGED


def test_epsilon_at_another_place_is_named_and_diverges_when_strict():
    theirs, ours = (lambda m: T.Adamax(m.parameters(), lr=0.01)), (lambda m: P.Adamax(0.01, parameters=m.parameters()))
    assert any(w.startswith("inherent: place of epsilon") for w in checked(theirs, ours).warnings)
    assert checked(theirs, ours, strict=True).verdict == DIVERGED


# -- what an optimizer rounds as it is ----------------------------------------------------------------------------------------------


def rounding(build, low, package):
    """An optimizer whose steps round gradients of float32 to a lower precision first, and no others."""

    def built(model):
        optimizer = build(model)
        step = optimizer.step

        def rounded(*arguments):
            for parameter in model.parameters():
                if parameter.grad is not None and parameter.grad.dtype == package.float32:
                    parameter.grad = low(parameter.grad)
            return step(*arguments)

        optimizer.step = rounded
        return optimizer

    return built


@pytest.mark.parametrize("low", ["float16", "bfloat16"])
@pytest.mark.parametrize("name", ["Momentum", "AdamW", "NAdam", "Adadelta"])
def test_gradients_that_the_port_alone_rounds_before_its_update_diverge(name, low):
    theirs, settings, ours, own = ALIKE[name]
    port_of = rounding(lambda m: ours(parameters=m.parameters(), **own), lambda g: g.astype(low).astype("float32"), paddle)
    result = checked(lambda m: theirs(m.parameters(), **settings), port_of)
    assert result.verdict == DIVERGED
    assert any("a lower precision in the optimizer" in note for note in result.notes)
    assert "ours(parameters=m.parameters()" in result.divergence.candidate.code


def test_the_same_rounding_on_both_sides_is_none():
    low = rounding(lambda m: T.SGD(m.parameters(), lr=0.1), lambda g: g.bfloat16().float(), torch)
    ours = rounding(lambda m: P.SGD(0.1, m.parameters()), lambda g: g.astype("bfloat16").astype("float32"), paddle)
    result = checked(low, ours)
    assert result.verdict == ALIGNED, told(result)


def test_updates_too_small_to_show_a_lower_precision_are_said():
    ours = rounding(lambda m: P.AdamW(1e-7, parameters=m.parameters()), lambda g: g.astype("bfloat16").astype("float32"), paddle)
    first = {"build_model": lambda: torch.nn.Linear(6, 4), "build_optimizer": lambda m: T.AdamW(m.parameters(), lr=1e-7)}
    second = {"build_model": lambda: paddle.nn.Linear(6, 4), "build_optimizer": ours}
    result = check(Side(framework="torch", functions=first), Side(framework="paddle", functions=second), stages=["optimizer"])["optimizer"]
    assert any("too small beside the parameters to show a lower precision" in note for note in result.notes), told(result)


@pytest.mark.parametrize("low", [None, "bfloat16"])
def test_backward_alone_shows_an_optimizer_that_rounds(low):
    def right(model):
        return P.AdamW(0.01, parameters=model.parameters())

    rounds = rounding(right, lambda g: g.astype("bfloat16").astype("float32"), paddle) if low else right
    functions = {"build_model": reference, "build_optimizer": lambda m: T.AdamW(m.parameters(), lr=0.01)}
    sides = (
        Side(framework="torch", functions=functions, loss=torch.nn.functional.cross_entropy),
        Side(framework="paddle", functions={"build_model": port, "build_optimizer": rounds}, loss=paddle.nn.functional.cross_entropy),
    )
    inputs = np.random.default_rng(0).standard_normal((8, 6)).astype("float32")
    result = check(*sides, inputs=inputs, labels=np.arange(8) % 3, stages=["weights", "backward"])["backward"]
    assert result.verdict == (DIVERGED if low else ALIGNED), told(result)


#: betas near 1: Paddle has them, or their powers, in float32 in its kernels, of which 1 - β shows the rounding
NEAR_ONE = {
    "Adam": (T.Adam, {"lr": 0.1, "betas": (0.9, 0.99995)}, P.Adam, {"learning_rate": 0.1, "beta2": 0.99995}),
    "AdamW": (
        T.AdamW, {"lr": 0.1, "betas": (0.999, 0.9999), "weight_decay": 0.01}, P.AdamW, {"learning_rate": 0.1, "beta1": 0.999, "beta2": 0.9999},
    ),
    "NAdam": (T.NAdam, {"lr": 0.1, "betas": (0.9, 0.9999)}, P.NAdam, {"learning_rate": 0.1, "beta2": 0.9999}),
    "RAdam": (T.RAdam, {"lr": 0.1, "betas": (0.9999, 0.9995)}, P.RAdam, {"learning_rate": 0.1, "beta1": 0.9999, "beta2": 0.9995}),
    "Adamax": (T.Adamax, {"lr": 0.1, "betas": (0.9999, 0.9999)}, P.Adamax, {"learning_rate": 0.1, "beta1": 0.9999, "beta2": 0.9999}),
    "Adadelta": (T.Adadelta, {"lr": 1.0, "rho": 0.9999, "eps": 1e-6}, P.Adadelta, {"learning_rate": 1.0, "rho": 0.9999}),
    "RMSprop": (T.RMSprop, {"lr": 0.1, "alpha": 0.9999, "eps": 1e-6}, P.RMSProp, {"learning_rate": 0.1, "rho": 0.9999}),
    "Momentum": (T.SGD, {"lr": 0.1, "momentum": 0.9999}, P.Momentum, {"learning_rate": 0.1, "momentum": 0.9999}),
}  # fmt: skip


@pytest.mark.parametrize("name", NEAR_ONE)
def test_betas_near_one_that_kernels_have_in_float32_are_no_fault(name):
    theirs, settings, ours, own = NEAR_ONE[name]
    result = checked(lambda m: theirs(m.parameters(), **settings), lambda m: ours(parameters=m.parameters(), **own))
    assert result.verdict == ALIGNED, told(result)
    assert {c.what: c.compared for c in result.coverage}["states carried across"] == 2, result.notes


@pytest.mark.parametrize(
    ("name", "wrong"),
    [("Adam", {"beta2": 0.9999}), ("NAdam", {"beta2": 0.9998}), ("Adamax", {"beta1": 0.9998}), ("RMSprop", {"rho": 0.9998})],
)
def test_another_beta_near_one_is_found_all_the_same(name, wrong):
    theirs, settings, ours, own = NEAR_ONE[name]
    result = checked(lambda m: theirs(m.parameters(), **settings), lambda m: ours(parameters=m.parameters(), **{**own, **wrong}))
    assert result.verdict == DIVERGED, told(result)
    said = f"{next(iter(wrong.values()))} in the candidate"
    assert any(said in cause for cause in told(result)[1]), told(result)


class OwnAdam(T.Optimizer):
    """A rule written by hand, which remembers under names of its own."""

    def __init__(self, params):
        super().__init__(params, {"lr": 0.01})

    @torch.no_grad()
    def step(self, closure=None):
        for group in self.param_groups:
            for p in group["params"]:
                if p.grad is None:
                    continue
                state = self.state[p]
                state["m"] = 0.9 * state.get("m", torch.zeros_like(p)) + 0.1 * p.grad
                p.sub_(group["lr"] * torch.tanh(state["m"]))


class OwnAdamPort(P.Optimizer):
    """The same in Paddle; ``forgetful``: its state is not saved."""

    def __init__(self, parameters, *, forgetful):
        super().__init__(learning_rate=0.01, parameters=parameters)
        self._means, self.forgetful = {}, forgetful

    @paddle.no_grad()
    def step(self):
        for p in self._parameter_list:
            if p.grad is not None:
                self._means[p.name] = 0.9 * self._means.get(p.name, paddle.zeros_like(p)) + 0.1 * p.grad
                p.set_value(p - self.get_lr() * paddle.tanh(self._means[p.name]))

    def state_dict(self):
        return super().state_dict() if self.forgetful else {**super().state_dict(), "means": dict(self._means)}

    def set_state_dict(self, state_dict):
        state = dict(state_dict)
        self._means = dict(state.pop("means", {}))
        super().set_state_dict(state)


@pytest.mark.parametrize(("forgetful", "verdict"), [(False, ALIGNED), (True, DIVERGED)])
def test_rules_written_by_hand_go_on_from_their_own_state_alone(forgetful, verdict):
    result = checked(lambda m: OwnAdam(m.parameters()), lambda m: OwnAdamPort(m.parameters(), forgetful=forgetful))
    assert result.verdict == verdict, told(result)
    assert any("no state was carried across: the reference remembers m and the candidate remembers nothing" in n for n in result.notes)
    assert [p.key for p in result.pairs if p.verdict == DIVERGED] == ["resumed updates of the candidate"] * forgetful
    notes = [note for p in result.pairs for note in p.notes if "does not bring back" in note]
    assert notes == ["its state_dict() does not bring back _means"] * forgetful
