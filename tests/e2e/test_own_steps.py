"""The user's own ``train_step`` on both frameworks: clipping, scaling, accumulation, EMA, GAN, gradient penalty, mixed precision; and faults."""

from __future__ import annotations

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED, UNDERPOWERED

torch = pytest.importorskip("torch")
paddle = pytest.importorskip("paddle")

X = np.random.default_rng(0).standard_normal((8, 6)).astype("float32")
Y = np.random.default_rng(1).standard_normal((8, 3)).astype("float32")


def reference():
    return torch.nn.Sequential(
        torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh(), torch.nn.Dropout(0.5), torch.nn.Linear(5, 3)
    )


def port():
    return paddle.nn.Sequential(
        paddle.nn.Linear(6, 5), paddle.nn.BatchNorm1D(5), paddle.nn.Tanh(), paddle.nn.Dropout(0.5), paddle.nn.Linear(5, 3)
    )


def adam(model):
    return torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)


def momentum(model):
    return paddle.optimizer.Momentum(0.1, 0.9, model.parameters())


def sides(theirs, ours, models=(reference, port), optimizers=(adam, momentum), **more):
    functions = [
        {"build_model": m, "build_optimizer": o, "train_step": s, **more}
        for m, o, s in zip(models, optimizers, (theirs, ours), strict=True)
    ]
    return Side(framework="torch", functions=functions[0]), Side(framework="paddle", functions=functions[1])


def checked(theirs, ours, **more):
    return check(*sides(theirs, ours, **more), inputs=X, labels=Y, stages=["backward"])["backward"]


def told(result):
    return (
        result.verdict,
        result.failure,
        [f.cause for f in result.findings],
        result.warnings,
        [p.key for p in result.pairs if p.verdict == DIVERGED][:5],
    )


def mse(outputs, labels):
    return ((outputs - labels) ** 2).mean()


def plain(model, optimizer, batch):
    model.train()
    loss = mse(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    return {"loss": float(loss)}


def ported(model, optimizer, batch):
    model.train()
    loss = mse(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(loss)}


def clipped(model, optimizer, batch):
    loss = mse(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()


def clipped_port(model, optimizer, batch):
    loss = mse(model(batch[0]), batch[1])
    loss.backward()
    paddle.nn.utils.clip_grad_norm_(model.parameters(), 0.01)
    optimizer.step()
    optimizer.clear_grad()


def accumulated(model, optimizer, batch):
    optimizer.zero_grad()
    for part in range(2):
        loss = mse(model(batch[0][part * 4 : part * 4 + 4]), batch[1][part * 4 : part * 4 + 4]) / 2
        loss.backward()
    optimizer.step()


def accumulated_port(model, optimizer, batch):
    for part in range(2):
        loss = mse(model(batch[0][part * 4 : part * 4 + 4]), batch[1][part * 4 : part * 4 + 4]) / 2
        loss.backward()
    optimizer.step()
    optimizer.clear_grad()


def penalised(model, optimizer, batch):
    inputs = batch[0].clone().requires_grad_()
    outputs = model(inputs)
    (slope,) = torch.autograd.grad(outputs.sum(), inputs, create_graph=True)
    optimizer.zero_grad()
    (mse(outputs, batch[1]) + (slope**2).sum()).backward()
    optimizer.step()


def penalised_port(model, optimizer, batch):
    inputs = batch[0].clone()
    inputs.stop_gradient = False
    outputs = model(inputs)
    (slope,) = paddle.grad(outputs.sum(), inputs, create_graph=True)
    (mse(outputs, batch[1]) + (slope**2).sum()).backward()
    optimizer.step()
    optimizer.clear_grad()


def lowered(model, optimizer, batch):
    with torch.autocast("cpu", torch.bfloat16):
        loss = mse(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()


def scaled(model, optimizer, batch):
    scaler = torch.amp.GradScaler("cpu", init_scale=1024.0)
    optimizer.zero_grad()
    scaler.scale(mse(model(batch[0]), batch[1])).backward()
    scaler.step(optimizer)
    scaler.update()


def scaled_port(model, optimizer, batch):
    loss = mse(model(batch[0]), batch[1]) * 1024.0
    loss.backward()
    for parameter in model.parameters():
        if parameter.grad is not None:
            parameter.grad = parameter.grad / 1024.0
    optimizer.step()
    optimizer.clear_grad()


SMOOTH = ((lambda: torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.Tanh(), torch.nn.Linear(5, 3))), (lambda: paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.Tanh(), paddle.nn.Linear(5, 3))))  # fmt: skip

RIGHT = {
    "plain": (plain, ported, {}),
    "clipping": (clipped, clipped_port, {}),
    "accumulation": (accumulated, accumulated_port, {}),
    "second gradients": (penalised, penalised_port, {"models": SMOOTH}),
    "scaled loss": (scaled, scaled_port, {"models": SMOOTH}),
}


@pytest.mark.parametrize("name", RIGHT)
def test_a_right_step_is_aligned(name):
    theirs, ours, more = RIGHT[name]
    result = checked(theirs, ours, **more)
    assert result.verdict == ALIGNED, told(result)
    assert {c.what: c.compared for c in result.coverage}["own steps"] == 3


def uncleared(model, optimizer, batch):
    loss = mse(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    return {"loss": float(loss)}


def unclipped(model, optimizer, batch):
    loss = mse(model(batch[0]), batch[1])
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()


def undivided(model, optimizer, batch):
    for part in range(2):
        loss = mse(model(batch[0][part * 4 : part * 4 + 4]), batch[1][part * 4 : part * 4 + 4])
        loss.backward()
    optimizer.step()
    optimizer.clear_grad()


def eager(model, optimizer, batch):
    for part in range(2):
        loss = mse(model(batch[0][part * 4 : part * 4 + 4]), batch[1][part * 4 : part * 4 + 4]) / 2
        loss.backward()
        optimizer.step()
    optimizer.clear_grad()


def summed(model, optimizer, batch):
    loss = ((model(batch[0]) - batch[1]) ** 2).sum()
    loss.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(loss)}


def unpenalised(model, optimizer, batch):
    mse(model(batch[0]), batch[1]).backward()
    optimizer.step()
    optimizer.clear_grad()


def slower(model):
    return paddle.optimizer.Momentum(0.1, 0.8, model.parameters())


FAULTS = {
    "not cleared": (plain, uncleared, {}, "own_step/uncleared", "optimizer.step()"),
    "not clipped": (clipped, unclipped, {}, "own_step/scale", "loss.backward()"),
    "not divided": (accumulated, undivided, {}, "own_step/scale", "loss.backward()"),
    "an update a batch": (accumulated, eager, {}, "own_step/updates", "optimizer.step()"),
    "sum for mean": (plain, summed, {}, "own_step/scale", "loss.backward()"),
    "no penalty": (penalised, unpenalised, {"models": SMOOTH}, "own_step/gradients", "mse(model(batch[0]), batch[1]).backward()"),
    "momentum": (plain, ported, {"optimizers": (adam, slower)}, "own_step/update", "Momentum(0.1, 0.8"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_step_is_found_with_its_cause_and_line(fault):
    theirs, ours, more, rule, code = FAULTS[fault]
    result = checked(theirs, ours, **more)
    assert result.verdict == DIVERGED, told(result)
    assert rule in [f.rule for f in result.findings], told(result)
    assert code in result.divergence.candidate.code, result.divergence.candidate


def clipping(norm):
    """A Paddle optimizer that clips by itself, as ports do of programs that clip in their loop."""
    return lambda model: paddle.optimizer.Momentum(0.1, 0.9, model.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(norm))


def test_clipping_in_loop_and_optimizer_with_gradients_that_cancel_out():
    result = checked(clipped, unclipped, optimizers=(adam, clipping(0.01)), loss=mse)  # a bias before a batch normalisation
    assert result.verdict == ALIGNED, told(result)


@pytest.mark.parametrize(
    ("step", "norm", "verdict"),
    [(clipped, 0.01, ALIGNED), (clipped, 0.02, DIVERGED), (plain, 0.01, DIVERGED), (plain, 1e6, ALIGNED)],
    ids=["clipped on both sides", "to another norm", "on one side only", "never reached"],
)
def test_clipping_in_the_loop_of_one_side_and_in_the_optimizer_of_the_other(step, norm, verdict):
    result = checked(step, unclipped, optimizers=(adam, clipping(norm)), loss=mse, models=SMOOTH)
    assert result.verdict == verdict, told(result)
    made_up = any("comes to the same" in note for note in result.notes)
    assert made_up is (step is clipped and verdict == ALIGNED)
    asked = sides(step, unclipped, optimizers=(adam, clipping(norm)), loss=mse, models=SMOOTH)
    fixes = [f.fix for f in check(*asked, inputs=X, labels=Y, stages=["optimizer"])["optimizer"].findings]
    assert any("train_step of both sides was compared as well" in fix for fix in fixes) is (verdict == DIVERGED), fixes
    assert not any("give both sides train_step" in fix for fix in fixes), fixes


def test_a_clipping_of_some_parameters_only_is_not_made_up_for():
    def theirs(model):
        return torch.optim.Adam(model.parameters(), lr=1e-5)

    def ours(model):
        model[2].weight.need_clip = False
        return paddle.optimizer.Adam(1e-5, parameters=model.parameters(), grad_clip=paddle.nn.ClipGradByGlobalNorm(0.01))

    both = sides(clipped, unclipped, optimizers=(theirs, ours), models=SMOOTH, loss=mse)
    for stage in check(*both, inputs=X, labels=Y, stages=["backward", "optimizer"]).stages:
        assert stage.verdict == DIVERGED, told(stage)


def decayed(model, optimizer, batch):
    loss = mse(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    with torch.no_grad():
        for parameter in model.parameters():
            parameter.grad += 0.05 * parameter
    optimizer.step()


def test_what_the_steps_do_otherwise_does_not_excuse_a_clipping_that_nothing_reaches():
    def ours(model):
        clip = paddle.nn.ClipGradByGlobalNorm(5.0)
        return paddle.optimizer.Momentum(0.1, 0.9, model.parameters(), weight_decay=0.05, grad_clip=clip)

    both = sides(decayed, unclipped, optimizers=(adam, ours), models=SMOOTH, loss=mse)
    result = check(*both, inputs=X, labels=Y, stages=["backward", "optimizer"])
    assert result["optimizer"].verdict == DIVERGED, told(result["optimizer"])


def test_a_decay_too_small_to_be_seen_in_steps_is_not_excused_by_a_clipping():
    def theirs(model):
        return torch.optim.AdamW(model.parameters(), lr=1e-6, weight_decay=0.01)

    def ours(model):
        clip = paddle.nn.ClipGradByGlobalNorm(0.01)
        return paddle.optimizer.AdamW(1e-6, parameters=model.parameters(), weight_decay=0.02, grad_clip=clip)

    both = sides(clipped, unclipped, optimizers=(theirs, ours), models=SMOOTH, loss=mse)
    result = check(*both, inputs=X, labels=Y, stages=["optimizer"])["optimizer"]
    assert result.verdict == DIVERGED, told(result)
    assert "weight decay" in result.findings[0].cause


def test_the_stage_optimizer_asks_own_steps_too():
    for norm, verdict in ((0.01, ALIGNED), (0.02, DIVERGED)):
        both = sides(clipped, unclipped, optimizers=(adam, clipping(norm)), models=SMOOTH)
        result = check(*both, inputs=X, labels=Y, stages=["optimizer"])["optimizer"]
        assert result.verdict in {verdict, UNDERPOWERED if verdict == ALIGNED else verdict}, told(result)
        assert any("comes to the same" in note for note in result.notes) is (verdict == ALIGNED)


def test_optimizers_that_clip_differently_without_own_steps_say_how_to_have_the_steps_judged():
    def side(framework, model, optimizer):
        return Side(framework=framework, functions={"build_model": model, "build_optimizer": optimizer, "loss": mse})

    both = side("torch", SMOOTH[0], adam), side("paddle", SMOOTH[1], clipping(0.01))
    result = check(*both, inputs=X, labels=Y, stages=["backward"])["backward"]
    assert result.verdict == DIVERGED
    assert any("train_step(model, optimizer, batch)" in f.fix for f in result.findings if f.rule == "update/clip"), told(result)


class Both(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.generator, self.critic = torch.nn.Linear(6, 3), torch.nn.Linear(3, 1)


class BothPorted(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.generator, self.critic = paddle.nn.Linear(6, 3), paddle.nn.Linear(3, 1)


def adversarial(clear):
    def step(model, optimizers, batch):
        fake = model.generator(batch[0])
        critic = model.critic(fake.detach()).mean() - model.critic(batch[1]).mean()
        critic.backward()
        optimizers["critic"].step()
        getattr(optimizers["critic"], clear)()
        (-model.critic(fake).mean()).backward()
        optimizers["generator"].step()
        for optimizer in optimizers.values():
            getattr(optimizer, clear)()
        return critic

    return step


def test_two_optimizers_of_an_adversarial_training():
    def theirs(model):
        return {n: torch.optim.Adam(getattr(model, n).parameters(), lr=0.01) for n in ("generator", "critic")}

    def ours(rate):
        return lambda model: {
            n: paddle.optimizer.Adam(r, parameters=getattr(model, n).parameters()) for n, r in (("generator", 0.01), ("critic", rate))
        }

    steps = adversarial("zero_grad"), adversarial("clear_grad")
    result = checked(*steps, models=(Both, BothPorted), optimizers=(theirs, ours(0.01)))
    assert result.verdict == ALIGNED, told(result)
    assert checked(*steps, models=(Both, BothPorted), optimizers=(theirs, ours(0.02))).verdict == DIVERGED


def test_a_step_that_draws_numbers_is_not_judged():
    def noisy(model, optimizer, batch):
        loss = mse(model(batch[0] + torch.randn_like(batch[0])), batch[1])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()

    result = checked(noisy, ported)
    assert result.verdict == UNDERPOWERED
    assert any("train_step of the reference draws random numbers" in w for w in result.warnings)


class Dropping(torch.nn.Module):
    """Drops whole samples by a function, which no mode switches off."""

    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3)

    def forward(self, x):
        hidden = torch.tanh(self.first(x))
        return self.second(hidden * hidden.new_empty(hidden.shape[0], 1).bernoulli_(0.7) / 0.7 if self.training else hidden)


class DropPath(paddle.nn.Layer):
    """The same as a layer."""

    def __init__(self, keep):
        super().__init__()
        self.keep = keep

    def forward(self, x):
        if not self.training:
            return x
        return x * paddle.bernoulli(paddle.full([x.shape[0], 1], self.keep, dtype=x.dtype)) / self.keep


class DroppingPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.first, self.second, self.drop = paddle.nn.Linear(6, 5), paddle.nn.Linear(5, 3), DropPath(0.7)

    def forward(self, x):
        return self.second(self.drop(paddle.tanh(self.first(x))))


def halved(model, optimizer, batch):
    (mse(model(batch[0]), batch[1]) / 2).backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": 0.0}


def test_steps_that_draw_are_compared_with_the_references_draws():
    right = checked(plain, ported, models=(Dropping, DroppingPort))
    assert right.verdict == ALIGNED, told(right)
    assert any("drew what the reference's drew" in note for note in right.notes)
    wrong = checked(plain, halved, models=(Dropping, DroppingPort))
    assert wrong.verdict == DIVERGED
    assert any("0.5 times the reference's" in f.cause for f in wrong.findings), told(wrong)


class Twice(torch.nn.Module):
    """One tower for both halves of a pair: its normalisation keeps its statistics twice a step; a bias before it has no gradient."""

    def __init__(self):
        super().__init__()
        self.tower = torch.nn.Sequential(torch.nn.Linear(6, 5), torch.nn.BatchNorm1d(5), torch.nn.Tanh(), torch.nn.Linear(5, 3))

    def forward(self, x):
        return self.tower(x[:4]) - self.tower(x[4:])


class TwicePort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.tower = paddle.nn.Sequential(paddle.nn.Linear(6, 5), paddle.nn.BatchNorm1D(5), paddle.nn.Tanh(), paddle.nn.Linear(5, 3))

    def forward(self, x):
        return self.tower(x[:4]) - self.tower(x[4:])


@pytest.mark.parametrize(("rate", "verdict"), [(0.9, ALIGNED), (0.8, DIVERGED)])
def test_a_layer_that_is_called_twice_a_step_keeps_its_statistics_twice(rate, verdict):
    def build():
        model = TwicePort()
        model.tower[1]._momentum = rate
        return model

    functions = ({"build_model": Twice, "loss": mse}, {"build_model": build, "loss": mse})
    both = [Side(framework=name, functions=f) for name, f in zip(("torch", "paddle"), functions, strict=True)]
    result = check(*both, inputs=X, labels=Y[:4], stages=["backward"])["backward"]
    assert result.verdict == verdict, told(result)


class TwoOptimizers:
    """Several optimizers behind one face, whose rates are a list."""

    def __init__(self, model):
        self.parts = [paddle.optimizer.Momentum(0.1, 0.9, list(layer.parameters())) for layer in (model[0], model[4])]

    def get_lr(self):
        return [part.get_lr() for part in self.parts]

    def step(self):
        for part in self.parts:
            part.step()

    def clear_grad(self):
        for part in self.parts:
            part.clear_grad()


def test_rates_that_are_told_as_a_list_are_those_of_several_optimizers():
    def groups(model):
        return torch.optim.SGD([{"params": model[n].parameters()} for n in (0, 4)], lr=0.1, momentum=0.9)

    result = checked(plain, ported, optimizers=(groups, TwoOptimizers), loss=mse)
    assert result.verdict == ALIGNED, told(result)


def test_a_step_of_one_side_alone_is_not_run():
    reference_side, candidate = sides(plain, ported)
    del candidate.functions["train_step"]
    result = check(reference_side, candidate, inputs=X, labels=Y, stages=["backward"])["backward"]
    assert "only the reference has train_step(model, optimizer, batch): it was not run" in result.notes


def batches(count, shift=0.0):
    def build_dataloader(split):
        random = np.random.default_rng(3)
        return [
            (
                random.standard_normal((4, 6)).astype("float32") + (shift if n == 2 else 0.0),
                random.standard_normal((4, 3)).astype("float32"),
            )
            for n in range(count)
        ]

    return build_dataloader


def tensors(loader, made):
    return lambda split: [tuple(made(part) for part in batch) for batch in loader(split)]


def fed(schedule, candidate=None, optimizer=momentum, **more):
    loaders = tensors(batches(6), torch.from_numpy), tensors(candidate or batches(6), paddle.to_tensor)
    made = [
        Side(framework=f, functions={"build_model": m, "build_optimizer": o, "loss": mse, "build_dataloader": loader, **more})
        for f, m, o, loader in (("torch", SMOOTH[0], adam, loaders[0]), ("paddle", SMOOTH[1], optimizer, loaders[1]))
    ]
    return check(*made, inputs=X, labels=Y, stages=["backward"], schedule=schedule)["backward"]


def test_real_batches_in_order_from_each_sides_own_loader():
    result = fed({"batches": 5})
    assert result.verdict == ALIGNED, told(result)
    assert {c.what: (c.compared, c.total) for c in result.coverage}["batches"] == (5, 5)
    assert len({float(p.stats.rms_reference) for p in result.pairs if p.key.startswith("loss_") and "train" not in p.key}) == 5
    assert any(p.key == "fed inputs_4" for p in result.pairs)


def test_a_batch_that_differs_is_named_and_the_references_batches_show_that_the_step_is_right():
    result = fed({"batches": 4}, batches(6, shift=0.1))
    assert result.verdict == DIVERGED
    assert result.findings[0].cause == "the data loaders give other batches: inputs_2 is the first that differs"
    result = fed({"batches": 4, "batches_from": "reference"}, batches(6, shift=0.1))
    assert result.verdict == ALIGNED, told(result)


def test_gradients_accumulated_over_real_batches():
    result = fed({"batches": 6, "accumulate": 2})
    assert result.verdict == ALIGNED, told(result)
    assert {c.what: c.compared for c in result.coverage}["steps"] == 3
    assert fed({"batches": 6, "accumulate": 2}, optimizer=slower).verdict == DIVERGED


def test_fewer_batches_than_were_asked_for_are_told():
    result = fed({"batches": 9})
    assert "the data loader gave 6 batches, 9 were asked for" in result.warnings


def test_mixed_precision_has_its_own_noise_and_is_missed_where_one_side_has_it_alone():
    def both(theirs, ours):
        made = [
            Side(framework="torch", functions={"build_model": SMOOTH[0], "build_optimizer": adam, "train_step": step})
            for step in (theirs, ours)
        ]
        return check(*made, inputs=X, labels=Y, stages=["backward"])["backward"]

    assert both(lowered, lowered).verdict == ALIGNED
    result = both(plain, lowered)
    assert result.verdict == DIVERGED, told(result)
    assert result.findings[0].rule == "own_step/precision"
    assert "torch.autocast" in result.divergence.candidate.code
    assert any("mixed precision on one side only?" in w for w in both(lowered, plain).warnings)


def _as_dict(batch):
    return {"image": batch[0], "target": batch[1]}


def _theirs(model, optimizer, batch):
    batch = dict(batch)
    target = batch.pop("target")
    return plain(model, optimizer, (batch.pop("image"), target))


def _ours(model, optimizer, batch):
    images, target = batch
    assert type(batch) is list
    return ported(model, optimizer, (images, target))


def test_each_side_gets_batches_as_its_own_loader_gives_them():
    first, second = sides(_theirs, _ours)
    first.functions["build_dataloader"] = lambda split: [_as_dict([torch.from_numpy(X), torch.from_numpy(Y)])]  # noqa: ARG005
    second.functions["build_dataloader"] = lambda split: [[paddle.to_tensor(X), paddle.to_tensor(Y)]]  # noqa: ARG005
    result = check(first, second, inputs=X, labels=Y, stages=["backward"])["backward"]
    assert result.verdict == ALIGNED, told(result)


def test_a_loader_that_fails_leaves_batches_as_they_were():
    def broken(split):
        raise RuntimeError(f"no split {split}")

    result = check(*sides(plain, ported, build_dataloader=broken), inputs=X, labels=Y, stages=["backward"])["backward"]
    assert result.verdict == ALIGNED, told(result)


class Whole(torch.nn.Module):
    """Takes a batch's inputs as one argument."""

    def __init__(self):
        super().__init__()
        self.body = reference()

    def forward(self, batch):
        return self.body(batch["left"] + batch["right"])


class WholePort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = port()

    def forward(self, pair):
        return self.body(pair["left"] + pair["right"])


def test_a_loader_that_gives_inputs_in_a_dict_beside_the_labels():
    first, second = sides(plain, ported, models=(Whole, WholePort))
    ones = np.ones((8, 6), "float32")
    theirs = ({"left": torch.from_numpy(X), "right": torch.from_numpy(ones)}, torch.from_numpy(Y))
    ours = [{"left": paddle.to_tensor(X), "right": paddle.to_tensor(ones)}, paddle.to_tensor(Y)]
    first.functions["build_dataloader"] = lambda split: [theirs]  # noqa: ARG005
    second.functions["build_dataloader"] = lambda split: [ours]  # noqa: ARG005
    result = check(first, second, inputs={"left": X, "right": ones}, labels=Y, stages=["forward", "backward"])
    assert result["forward"].verdict == ALIGNED, told(result["forward"])
    assert result["backward"].verdict == ALIGNED, told(result["backward"])


AVERAGES = {}


def averaged(model, optimizer, batch):
    """A step whose averages of the weights are kept on the model, and are its weights afterwards."""
    if not hasattr(model, "average"):
        model.average = {n: p.detach().clone() for n, p in model.named_parameters()}
    loss = mse(model(batch[0]), batch[1])
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()
    with torch.no_grad():
        for name, parameter in model.named_parameters():
            parameter.copy_(model.average[name].lerp_(parameter, 0.1))
    return loss


def averaged_port(rate):
    """The same with averages in a variable of the module, where weights have this share of them."""

    def step(model, optimizer, batch):
        trained = {n: p for n, p in model.named_parameters() if not p.stop_gradient}  # Paddle's statistics are parameters too
        if not AVERAGES:
            AVERAGES.update({n: p.detach().clone() for n, p in trained.items()})
        loss = mse(model(batch[0]), batch[1])
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        for name, parameter in trained.items():
            AVERAGES[name] = AVERAGES[name] + rate * (parameter.detach() - AVERAGES[name])
            parameter.set_value(AVERAGES[name])
        return loss

    return step


@pytest.mark.parametrize(("rate", "verdict"), [(0.1, ALIGNED), (0.2, DIVERGED)])
def test_averages_on_a_model_or_in_a_module_begin_anew_in_every_run(rate, verdict):
    result = checked(averaged, averaged_port(rate))
    assert result.verdict == verdict, told(result)
    assert not AVERAGES


class Jumping(Dropping):
    """Gradients that all but cancel out: rounding decides in which direction an adaptive rule goes."""

    def forward(self, x):
        return super().forward(x) + (self.first(x) - self.first(x + 1e-6)).mean()


class JumpingPort(DroppingPort):
    def forward(self, x):
        return super().forward(x) + (self.first(x) - self.first(x + 1e-6)).mean()


def test_steps_that_draw_have_the_noise_of_the_references_native_steps():
    optimizers = (
        lambda model: torch.optim.Adam(model.parameters(), lr=1e-2),
        lambda model: paddle.optimizer.Adam(1e-2, parameters=model.parameters()),
    )
    right = checked(plain, ported, models=(Jumping, JumpingPort), optimizers=optimizers)
    assert right.verdict == ALIGNED, told(right)
    wrong = checked(plain, halved, models=(Jumping, JumpingPort))
    assert wrong.verdict == DIVERGED, told(wrong)


class Two(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.body = reference()

    def forward(self, left, right):
        return self.body(left + right)


class TwoPort(paddle.nn.Layer):
    def __init__(self):
        super().__init__()
        self.body = port()

    def forward(self, left, right):
        return self.body(left + right)


def test_a_loader_that_gives_a_list_of_inputs_beside_the_labels():
    def theirs(model, optimizer, batch):
        (left, right), labels = batch
        loss = mse(model(left, right), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return float(loss)

    def ours(model, optimizer, batch):
        (left, right), labels = batch
        loss = mse(model(left, right), labels)
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
        return float(loss)

    first, second = sides(theirs, ours, models=(Two, TwoPort))
    ones = np.ones((8, 6), "float32")
    first.functions["build_dataloader"] = lambda split: [[[torch.from_numpy(X), torch.from_numpy(ones)], torch.from_numpy(Y)]]  # noqa: ARG005
    second.functions["build_dataloader"] = lambda split: [((paddle.to_tensor(X), paddle.to_tensor(ones)), paddle.to_tensor(Y))]  # noqa: ARG005
    result = check(first, second, inputs=[X, ones], labels=Y, stages=["backward"])["backward"]
    assert result.verdict == ALIGNED, told(result)


def mixed(blend, as_tensor):
    """A step that blends each sample with another by a share that numpy draws."""

    def step(model, optimizer, batch):
        model.train()
        inputs, labels = batch
        share = np.random.beta(0.4, 0.4)  # noqa: NPY002 - programs draw so, from the stream that both sides seed
        order = as_tensor(np.random.permutation(len(inputs)))  # noqa: NPY002 - as above
        loss = mse(model(blend(inputs, order, share)), blend(labels, order, share))
        loss.backward()
        optimizer.step()
        (optimizer.zero_grad if hasattr(optimizer, "zero_grad") else optimizer.clear_grad)()
        return {"loss": float(loss)}

    return step


def lerped(turned):
    """A blend by an operator that has no float64: a pass in that type fails there."""

    def blend(values, order, share):
        if values.dtype == paddle.float64:
            raise RuntimeError("no kernel of this type")
        ends = values, values.index_select(order, axis=0)
        return paddle.lerp(*(ends if turned else ends[::-1]), paddle.to_tensor(share, dtype="float32"))

    return blend


@pytest.mark.parametrize(("turned", "verdict"), [(False, ALIGNED), (True, DIVERGED)])
def test_steps_that_draw_are_compared_where_the_candidate_does_not_run_in_float64(turned, verdict):
    theirs = mixed(lambda values, order, share: share * values + (1 - share) * values[order], torch.from_numpy)
    ours = mixed(lerped(turned), paddle.to_tensor)
    result = checked(theirs, ours, models=(Dropping, DroppingPort))
    assert result.verdict == verdict, told(result)
    assert any("the candidate does not run in float64" in note for note in result.notes)


def test_a_reference_that_draws_and_does_not_run_in_float64_is_said_to():
    def single(model, optimizer, batch):
        if batch[0].dtype == torch.float64:
            raise RuntimeError("no kernel of this type")
        plain(model, optimizer, batch)

    result = checked(single, ported, models=(Dropping, DroppingPort))
    assert result.verdict == UNDERPOWERED, told(result)
    assert any("the reference does not run in float64" in w for w in result.warnings), told(result)
    assert not any("other random operations" in w for w in result.warnings)


#: a rate whose six digits are a tie: as a share of another rate, and back, it rounds otherwise
SLOW, FAST = 0.001562805, 0.05


def in_two_groups(model):
    """Two groups, each with its own rate."""
    return torch.optim.SGD([{"params": model[0].parameters(), "lr": FAST}, {"params": model[4].parameters(), "lr": SLOW}], lr=FAST)


def in_two_groups_of_another_order(slow):
    """The same the other way round, one of the rates a factor of the other."""

    def build(model):
        groups = [{"params": model[4].parameters(), "learning_rate": slow / FAST}, {"params": model[0].parameters()}]
        return paddle.optimizer.SGD(FAST, parameters=groups)

    return build


@pytest.mark.parametrize(("slow", "verdict"), [(SLOW, ALIGNED), (SLOW * 1.001, DIVERGED)])
def test_rates_of_groups_in_another_order_may_round_otherwise(slow, verdict):
    optimizers = in_two_groups, in_two_groups_of_another_order(slow)
    result = checked(plain, ported, optimizers=optimizers, loss=mse)
    assert result.verdict == verdict, told(result)


class Noisy(torch.nn.Module):
    """Adds noise in training, from a generator that it keeps."""

    def __init__(self):
        super().__init__()
        self.first, self.last, self.numbers = torch.nn.Linear(6, 5), torch.nn.Linear(5, 3), np.random.RandomState(7)

    def forward(self, x):
        if self.training:
            x = x + torch.from_numpy(self.numbers.standard_normal(tuple(x.shape)) * 0.1).to(x.dtype)
        return self.last(torch.tanh(self.first(x)))


class NoisyPort(paddle.nn.Layer):
    def __init__(self, seed, size):
        super().__init__()
        self.last, self.first, self.size = paddle.nn.Linear(5, 3), paddle.nn.Linear(6, 5), size
        self.rng = np.random.RandomState(seed)

    def forward(self, x):
        if self.training:
            x = x + paddle.to_tensor(self.rng.normal(0.0, self.size, x.shape), dtype=x.dtype)
        return self.last(paddle.tanh(self.first(x)))


def compared(seed, size, **more):
    functions = [
        {"build_model": model, "build_optimizer": optimizer, "loss": mse}
        for model, optimizer in ((Noisy, adam), (lambda: NoisyPort(seed, size), momentum))
    ]
    for own, step in zip(functions, more.get("steps", ()), strict=False):
        own["train_step"] = step
    both = Side(framework="torch", functions=functions[0]), Side(framework="paddle", functions=functions[1])
    return check(*both, inputs=X, labels=Y, stages=["backward"])["backward"]


def test_generators_that_a_model_keeps_begin_anew_in_every_run():
    result = compared(7, 0.1)
    assert result.verdict == ALIGNED, told(result)
    assert not result.warnings
    assert any("began anew in every run" in note for note in result.notes), result.notes


@pytest.mark.parametrize(("seed", "size"), [(8, 0.1), (7, 0.11)])
def test_other_numbers_of_generators_that_a_model_keeps_are_told(seed, size):
    alone = compared(seed, size)
    assert any("make other steps in the candidate" in warning for warning in alone.warnings), alone.warnings
    assert not any("began anew in every run" in note for note in alone.notes), alone.notes
    assert compared(seed, size, steps=(plain, ported)).verdict == DIVERGED


def attentive(framework, nn, parameter, pooled):
    """Pooling by attention whose score has a bias: what a softmax takes no notice of has a gradient of rounding alone."""

    class Net(nn):
        def __init__(self):
            super().__init__()
            self.first, self.score, self.head = framework.Linear(6, 5), framework.Linear(5, 1), framework.Linear(5, 3)
            self.bias = parameter(self)

        def forward(self, x):
            states = self.first(x.reshape((8, 1, 6)) * self.weigh.to(x.dtype))
            return self.head(pooled(states, self.score(states), self.bias))

    return Net()


def test_an_update_of_a_gradient_that_is_rounding_says_nothing_of_the_precision():
    weigh = np.arange(1, 5, dtype="float32").reshape(1, 4, 1)

    def theirs():  # which sums this gradient in float64, and so rounds less than the port
        def pooled(states, score, bias):
            return (states * (score.double() + bias.double()).softmax(1).to(states.dtype)).sum(1)

        net = attentive(torch.nn, torch.nn.Module, lambda _: torch.nn.Parameter(torch.zeros(1)), pooled)
        net.weigh = torch.from_numpy(weigh)
        return net

    def ours():
        def pooled(states, score, bias):
            return (states * paddle.nn.functional.softmax(score + bias, 1)).sum(1)

        net = attentive(paddle.nn, paddle.nn.Layer, lambda net: net.create_parameter([1], is_bias=True), pooled)
        net.weigh = paddle.to_tensor(weigh)
        return net

    def one(model, optimizer, batch):
        loss = ((model(batch[0]) - batch[1]) ** 2).mean()
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        return loss

    def other(model, optimizer, batch):
        loss = ((model(batch[0]) - batch[1]) ** 2).mean()
        optimizer.clear_grad()
        loss.backward()
        optimizer.step()
        return loss

    result = checked(
        one,
        other,
        models=(theirs, ours),
        optimizers=(
            lambda model: torch.optim.AdamW(model.parameters(), lr=1e-2, weight_decay=0.0, eps=1e-8),
            lambda model: paddle.optimizer.AdamW(1e-2, epsilon=1e-8, parameters=model.parameters(), weight_decay=0.0),
        ),
    )
    assert result.verdict == ALIGNED, told(result)
