"""One pair of real models: given weights that say something, then handed to ``paralign.check`` like anybody's models."""

from __future__ import annotations

import time
from collections import Counter

from paralign import Side, check
from paralign.stages.common import judging

#: method of the forward stage -> the ratio up to which it calls outputs aligned
LIMITS = {m.name: m.limit for m in (judging.FLOAT64, judging.PARTLY, judging.AGAINST, judging.PERTURBATION)}

#: axes of a batch of images
IMAGES = 4


def randomised(model, inputs):
    """The model with no two tensors equal by construction, and BatchNorm statistics of its own activations."""
    import torch

    random = torch.Generator().manual_seed(1)
    with torch.no_grad():
        for tensor in model.parameters():
            if tensor.is_floating_point() and tensor.numel() > 1 and bool((tensor == tensor.flatten()[0]).all()):
                tensor.add_(torch.randn(tensor.shape, generator=random) * 0.1)
        norms = [m for m in model.modules() if "BatchNorm" in type(m).__name__]
        if norms:
            model.train()
            momenta = [(m, m.momentum) for m in norms]
            for norm in norms:
                norm.reset_running_stats()
                norm.momentum = None  # the mean over all passes, whatever the model's own pace
            for module in model.modules():
                if "Drop" in type(module).__name__:
                    module.eval()
            for _ in range(10):
                model(*(torch.from_numpy(i) for i in inputs))
            for norm, momentum in momenta:
                norm.momentum = momentum
    return model.eval()


def stretched(inputs):
    """Images with the second of the batch eight times as large: activations that saturate differ only there."""
    if isinstance(inputs, dict) or inputs[0].ndim != IMAGES or len(inputs[0]) == 1:
        return inputs
    image = inputs[0].copy()
    image[1] *= 8
    return (image, *inputs[1:])


def prepared(pair):
    """Both models of a pair in eval mode, the reference with weights that say something, and the inputs."""
    model, port, inputs = pair.build()
    port.eval()
    return randomised(model, inputs), port, stretched(inputs)


def examine(pair):
    """The row of a pair: tensors, how they were mapped, error, verdict, seconds, what was found."""
    began = time.perf_counter()
    model, port, inputs = prepared(pair)
    result = check(
        Side(model=model, framework="torch"),
        Side(model=port, framework="paddle"),
        inputs=inputs,
        rules=pair.rules(model, port) if pair.rules else None,
        stages=["weights", "forward"],
    )
    weights, forward = result["weights"], result["forward"]
    worst = forward.worst
    return {
        "tensors": sum(1 for p in weights.pairs if p.reference is not None),
        "how": ", ".join(f"{count} {how}" for how, count in Counter(p.how for p in weights.pairs).most_common() if how != "none"),
        "error": worst.ratio / LIMITS[forward.method] if worst is not None and worst.ratio is not None else None,
        "method": forward.method,
        "verdict": result.verdict,
        "told": told(weights, forward),
        "weights": weights.verdict,
        "forward": forward.verdict,
        "proof": [n for n in weights.notes if n.startswith(("proven: ", "assignments "))],
        "ambiguous": [n for n in weights.notes if n.startswith("ambiguous: ")],
        "untested": [n for n in weights.notes if n.startswith("not tried")],
        "seconds": time.perf_counter() - began,
    }


def told(weights, forward):
    """Why a pair is not aligned: a side that failed, tensors without a twin, the layer."""
    for stage in (weights, forward):
        if stage.failure:
            return f"the {stage.failure['side']} failed: {stage.failure['type']}: {stage.failure['message'][:300]}"
    lost = [p for p in weights.pairs if p.how == "none"]
    lines = [f"not the same tensors, such as {lost[0].key} ({lost[0].notes[0]})"] if lost else []
    weak = [p for p in weights.pairs if p.verdict == "underpowered"]
    lines += [f"nothing shows the place of {len(weak)} tensors, such as {weak[0].key}"] if weak else []
    found = forward.divergence
    if found is not None:
        ends = [f"{p.name or 'the model'} ({p.op})" for p in (found.reference, found.candidate) if p is not None]
        lines.append(" / ".join(ends) + "".join(f": {n}" for n in (found.pair.notes if found.pair else [])))
    return "; ".join(lines)
