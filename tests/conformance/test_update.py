"""The update alone, PyTorch against Paddle: correct ports are aligned, and what differs is named, proven, and found in the code."""

from __future__ import annotations

import importlib.util

import numpy as np
import pytest

from paralign import Side, check
from paralign.model import ALIGNED, DIVERGED
from paralign.port.drafts.converted import convert_code

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

RANDOM = np.random.RandomState(0)
INPUTS, LABELS = RANDOM.randn(6, 12).astype("float32"), RANDOM.randint(0, 4, 6)

HEAD = {
    "torch": """
import torch
O = torch.optim
def split(model):
    named = list(model.named_parameters())
    return [p for _, p in named if p.ndim > 1], [p for _, p in named if p.ndim <= 1]
class Clipped(O.SGD):
    def step(self, closure=None):
        torch.nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g["params"]], 0.2)
        super().step()
class ClippedAdamW(O.AdamW):
    def step(self, closure=None):
        torch.nn.utils.clip_grad_norm_([p for g in self.param_groups for p in g["params"]], 0.2)
        super().step()
""",
    "paddle": """
import paddle
O = paddle.optimizer
Clip = paddle.nn.ClipGradByGlobalNorm
def split(model):
    named = list(model.named_parameters())
    return [p for _, p in named if p.ndim > 1], [p for _, p in named if p.ndim <= 1]
""",
}


def models():
    """New ones each time: Paddle writes the settings of parameter groups into the parameters, where they stay."""
    torch, paddle = pytest.importorskip("torch"), pytest.importorskip("paddle")
    torch.manual_seed(0)
    return (
        torch.nn.Sequential(torch.nn.Linear(12, 16), torch.nn.BatchNorm1d(16), torch.nn.Tanh(), torch.nn.Linear(16, 4)),
        paddle.nn.Sequential(paddle.nn.Linear(12, 16), paddle.nn.BatchNorm1D(16), paddle.nn.Tanh(), paddle.nn.Linear(16, 4)),
    )


@pytest.fixture
def compare(tmp_path):
    """Checks the backward stage of the same model with two optimizers, given as code."""
    import paddle
    import torch

    def load(framework, code):
        path = tmp_path / f"{framework}_side.py"
        body = "\n".join("    " + line for line in code.strip().splitlines())
        path.write_text(f"{HEAD[framework]}\ndef build_optimizer(model):\n    params = list(model.parameters())\n{body}\n")
        spec = importlib.util.spec_from_file_location(path.stem, path)
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
        functions = {"build_optimizer": module.build_optimizer}
        if "scheduler" in code:
            functions["build_scheduler"] = lambda optimizer: module.build_optimizer.schedule(optimizer)  # noqa: PLW0108 - set by build_optimizer
        return functions, path

    def run(reference, candidate, **options):
        functions, paths = zip(load("torch", reference), load("paddle", candidate), strict=True)
        sides = [
            Side(framework, model=model, loss=loss, functions=f)
            for framework, model, loss, f in zip(
                ("torch", "paddle"),
                models(),
                (torch.nn.functional.cross_entropy, paddle.nn.functional.cross_entropy),
                functions,
                strict=True,
            )
        ]
        result = check(*sides, inputs=INPUTS, labels=LABELS, stages=["weights", "backward"], **options)
        return result["backward"], paths[1]

    return run


CORRECT = {
    "SGD": ("return O.SGD(params, lr=0.05)", "return O.SGD(0.05, parameters=params)"),
    "Momentum": (
        "return O.SGD(params, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01)",
        "return O.Momentum(0.05, 0.9, use_nesterov=True, parameters=params, weight_decay=0.01)",
    ),
    "Adam": ("return O.Adam(params, lr=1e-3, weight_decay=0.1)", "return O.Adam(1e-3, parameters=params, weight_decay=0.1)"),
    "AdamW": ("return O.AdamW(params, lr=1e-3)", "return O.AdamW(1e-3, parameters=params)"),
    "AdamW in groups": (
        "w, b = split(model)\nreturn O.AdamW([{'params': w, 'weight_decay': 0.1}, {'params': b, 'weight_decay': 0.0, 'lr': 1e-4}], lr=1e-3)",
        "w, b = split(model)\nreturn O.AdamW(1e-3, parameters=[{'params': w, 'weight_decay': 0.1}, {'params': b, 'weight_decay': 0.0, 'learning_rate': 0.1}])",
    ),
    "AdamW with exempt names": (
        "w, b = split(model)\nreturn O.AdamW([{'params': w}, {'params': b, 'weight_decay': 0.0}], lr=1e-3, weight_decay=0.1)",
        "w, _ = split(model)\nnames = {p.name for p in w}\nreturn O.AdamW(1e-3, parameters=params, weight_decay=0.1, apply_decay_param_fun=names.__contains__)",
    ),
    "clipped SGD": ("return Clipped(params, lr=0.05)", "return O.SGD(0.05, parameters=params, grad_clip=Clip(0.2))"),
    "clipped AdamW": ("return ClippedAdamW(params, lr=1e-3)", "return O.AdamW(1e-3, parameters=params, grad_clip=Clip(0.2))"),
    "RMSProp": (
        "return O.RMSprop(params, lr=1e-3, momentum=0.9, centered=True)",
        "return O.RMSProp(1e-3, rho=0.99, epsilon=1e-8, momentum=0.9, centered=True, parameters=params)",
    ),
    "Adagrad": ("return O.Adagrad(params, lr=0.01)", "return O.Adagrad(0.01, epsilon=1e-10, parameters=params)"),
    "Adadelta": ("return O.Adadelta(params, lr=0.1)", "return O.Adadelta(0.1, epsilon=1e-6, rho=0.9, parameters=params)"),
    "Adamax": ("return O.Adamax(params, lr=1e-3)", "return O.Adamax(1e-3, parameters=params)"),
    "NAdam": ("return O.NAdam(params, lr=1e-3)", "return O.NAdam(1e-3, parameters=params)"),
    "RAdam": ("return O.RAdam(params, lr=1e-3)", "return O.RAdam(1e-3, parameters=params)"),
}


@pytest.mark.parametrize("what", CORRECT)
def test_correct_ports_are_aligned(compare, what):
    result, _ = compare(*CORRECT[what])
    assert result.verdict == ALIGNED, [(f.rule, f.cause) for f in result.findings]
    assert {f.rule for f in result.findings} <= {"update/inherent"}
    assert result.divergence is None


GROUPS = "w, b = split(model)\nreturn O.Adam([{'params': w, 'weight_decay': 0.1}, {'params': b, 'lr': 1e-4}], lr=1e-3)"


@pytest.mark.parametrize(("rate", "verdict"), [("1e-4", ALIGNED), ("3e-4", DIVERGED)])
def test_converted_groups_are_checked_with_their_own_rates(compare, tmp_path, rate, verdict):
    source = "import torch\n\n\ndef made(w, b):\n    return torch.optim." + GROUPS.split("return O.")[1].replace("1e-4", rate) + "\n"
    (tmp_path / "source.py").write_text(source)
    convert_code(tmp_path / "source.py", tmp_path / "port.py")
    port = f"import runpy\nw, b = split(model)\nreturn runpy.run_path({str(tmp_path / 'port.py')!r})['made'](w, b)"
    result, _ = compare(GROUPS, port)
    assert result.verdict == verdict
    if verdict == DIVERGED:
        told = " ".join(f"{f.rule} {f.cause}" for f in result.findings)
        assert "0.0001" in told, told
        assert "0.0003" in told, told


def test_inherent_differences_are_named_with_their_size_and_count_when_strict(compare):
    pair = "return O.Adamax(params, lr=1e-3, eps=1e-6)", "return O.Adamax(1e-3, epsilon=1e-6, parameters=params)"
    result, _ = compare(*pair)
    assert result.verdict == ALIGNED
    (finding,) = result.findings
    assert (finding.rule, finding.proven) == ("update/inherent", True)
    assert finding.error_before > 1e-6 > finding.error_after
    assert any("place of epsilon" in w and "size" in w for w in result.warnings)
    strict, _ = compare(*pair, strict=True)
    assert strict.verdict == DIVERGED


ADAMW = "return O.AdamW(params, lr=1e-3, weight_decay=0.1)"
SGD = "return O.SGD(params, lr=0.05)"

#: reference, candidate, rule, part of the cause, part of the line that is to be named
WRONG = {
    "no decay": (ADAMW, "return O.AdamW(\n    1e-3,\n    weight_decay=0.0,\n    parameters=params)", "decay", "0.1, decoupled", "weight_decay=0.0"),
    "default decay": (ADAMW, "return O.AdamW(1e-3, parameters=params)", "decay", "0.01, decoupled", "return O.AdamW"),
    "coupled": (ADAMW, "return O.Adam(1e-3, parameters=params, weight_decay=0.1)", "decay", "added to the gradient (L2) in the candidate", "return O.Adam"),
    "decay on biases": (
        "w, b = split(model)\nreturn O.AdamW([{'params': w}, {'params': b, 'weight_decay': 0.0}], lr=1e-3, weight_decay=0.1)",
        "return O.AdamW(1e-3, parameters=params, weight_decay=0.1)", "decay", "on biases and normalisation", "return O.AdamW",
    ),
    "rate": (SGD, "return O.SGD(\n    learning_rate=0.051,\n    parameters=params)", "rates", "1.02 times the reference's", "learning_rate=0.051"),
    "factor of a group": (
        "w, b = split(model)\nreturn O.SGD([{'params': w}, {'params': b, 'lr': 0.1}], lr=0.05)",
        "w, b = split(model)\nreturn O.SGD(0.05, parameters=[{'params': w}, {'params': b, 'learning_rate': 0.1}])",
        "rates", "0.05 times the reference's", "return O.SGD",
    ),
    "no momentum": ("return O.SGD(params, lr=0.05, momentum=0.9)", "return O.SGD(0.05, parameters=params)", "first", "momentum: 0.9 in the reference, 0", "return O.SGD"),
    "default momentum": (SGD, "return O.Momentum(0.05, parameters=params)", "first", "momentum: 0 in the reference, 0.9", "return O.Momentum"),
    "nesterov": ("return O.SGD(params, lr=0.05, momentum=0.9, nesterov=True)", "return O.Momentum(0.05, parameters=params)", "nesterov", "Nesterov", "return O.Momentum"),
    "beta 2": ("return O.Adam(params, lr=1e-3, betas=(0.9, 0.98))", "return O.Adam(1e-3, parameters=params)", "second", "0.98 in the reference, 0.999", "return O.Adam"),
    "epsilon": ("return O.Adam(params, lr=1e-3, eps=1e-4)", "return O.Adam(1e-3, parameters=params)", "eps", "0.0001 in the reference, 1e-08", "return O.Adam"),
    "place of epsilon": (
        "return O.RMSprop(params, lr=1e-3, eps=1e-3)", "return O.RMSProp(1e-3, rho=0.99, epsilon=1e-3, parameters=params)", "place", "inside the root in the candidate", "return O.RMSProp",
    ),
    "no clipping": ("return Clipped(params, lr=0.05)", "return O.SGD(0.05, parameters=params)", "clip", "to 0.2 in the reference, none", "return O.SGD"),
    "clipping by group": (
        "return Clipped(params, lr=0.05)",
        "w, b = split(model)\nreturn O.SGD(0.05, parameters=[{'params': w}, {'params': b}], grad_clip=Clip(0.2))", "clip", "of each group's norm to 0.2", "return O.SGD",
    ),
    "clipping by tensor": (
        "return Clipped(params, lr=0.05)", "return O.SGD(0.05, parameters=params, grad_clip=paddle.nn.ClipGradByNorm(0.2))", "clip", "of each parameter's norm", "return O.SGD",
    ),
    "forgotten parameter": (SGD, "return O.SGD(0.05, parameters=params[:-1])", "moves", "whose optimizer was not given them", "return O.SGD"),
    "schedule": (
        "from torch.optim.lr_scheduler import StepLR\nbuild_optimizer.schedule = lambda optimizer: StepLR(optimizer, 1, 0.5)  # scheduler\nreturn O.SGD(params, lr=0.05)",
        "build_optimizer.schedule = lambda optimizer: None  # scheduler\nsteps = O.lr.StepDecay(0.05, 2, 0.5)\nreturn O.SGD(steps, parameters=params)",
        "rates", "learning rate", "steps = O.lr.StepDecay",
    ),
    "another optimizer": ("return O.Adam(params, lr=1e-3)", "return O.RMSProp(1e-3, parameters=params)", "family", "adam in the reference, rmsprop", "return O.RMSProp"),
}  # fmt: skip


@pytest.mark.parametrize("what", WRONG)
def test_what_differs_is_proven_and_found_in_the_code(compare, what):
    reference, candidate, rule, said, line = WRONG[what]
    result, path = compare(reference, candidate)
    assert result.verdict == DIVERGED
    blamed = [f for f in result.findings if f.rule != "update/inherent"]
    assert [f.rule for f in blamed] == [f"update/{rule}"]
    assert said in blamed[0].cause
    assert blamed[0].proven
    assert blamed[0].error_after < 1e-4 < blamed[0].error_before
    divergence = result.divergence
    assert divergence.pair.key.startswith("moved ")
    assert divergence.inputs_agree
    assert divergence.confirmed
    assert divergence.candidate.source.startswith(str(path))
    assert line in divergence.candidate.code
    assert ("StepLR(optimizer" if what == "schedule" else "return ") in divergence.reference.code


def test_an_update_that_no_rule_explains_says_so(compare):
    result, path = compare("return O.Adam(params, lr=1e-3)", "return O.Lamb(1e-3, parameters=params)")
    assert (result.verdict, result.findings) == (DIVERGED, [])
    assert any("no rule that was tried reproduces the steps of the candidate" in w for w in result.warnings)
    assert divergence_line(result).startswith(str(path))


def divergence_line(result):
    return result.divergence.candidate.source


def test_a_wrong_gradient_stays_with_the_gradient_although_the_update_is_wrong_too(compare):
    import paddle

    original = paddle.nn.functional.cross_entropy
    paddle.nn.functional.cross_entropy = lambda o, t: original(o, t) + 0.1 * (o.detach() * o).sum()
    try:
        result, _ = compare(SGD, "return O.SGD(0.06, parameters=params)")
    finally:
        paddle.nn.functional.cross_entropy = original
    wrong = [pair.key for pair in result.pairs if pair.judged and pair.verdict == DIVERGED]
    assert wrong[0].startswith(("loss_0", "gradient_0"))
    assert result.divergence is result.divergences[0]
    assert result.divergence.what not in ("", "update")
    assert [f.rule for f in result.findings] == ["update/rates"]
