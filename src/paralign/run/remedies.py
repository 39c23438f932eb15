"""What to do about failures that the frameworks' own questions and answers know.

They are known by their messages.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence

#: a frame of a failure that is in a layer's own forward pass: what it called there is no longer the model
_FORWARD = re.compile(r"(?P<file>.+):\d+ in forward(?::|$)")

#: our own files: functions of ours that are called so are no layers
_OURS = str(Path(__file__).parents[1])


@dataclass(frozen=True)
class Remedy:
    """A failure that users meet often.

    Args:
        id: what the failure is called, also in docs/faq.md.
        pattern: what its message or log holds, as a regular expression without regard to case.
        frameworks: those that it speaks of; empty for all.
        fix: what to do.
        inside: what to do where the failure was raised within a layer's forward pass; '' where that is the same.
    """

    id: str
    pattern: str
    frameworks: tuple[str, ...]
    fix: str
    inside: str = ""

    def said(self, frames: Sequence[str] = ()) -> str:
        """What to do about a failure that passed these frames of the user's code."""
        return self.inside if self.inside and any(map(_is_of_a_layer, frames)) else self.fix


#: the first that fits is said; the texts of others' messages are all that there is to tell them by
REMEDIES = (
    Remedy(
        "gpu-memory",
        r"out of memory error on gpu|cannot allocate .* memory on gpu|resourceexhaustederror",
        ("paddle",),
        "the GPU's memory does not suffice: halve the batch size (and the rate with it); in the side's `env` set "
        "FLAGS_eager_delete_tensor_gb = 0.0, FLAGS_fast_eager_deletion_mode = 1 and FLAGS_fraction_of_gpu_memory_to_use = 0; "
        "`paralign watch-memory` tells whether it grows from step to step",
    ),
    Remedy(
        "gpu-memory",
        r"cuda out of memory|outofmemoryerror",
        (),
        "the GPU's memory does not suffice: halve the batch size (and the rate with it); in the side's `env` set "
        "PYTORCH_CUDA_ALLOC_CONF = 'expandable_segments:True'; `paralign watch-memory` tells whether it grows from step to step",
    ),
    Remedy(
        "two-devices",
        r"on the same device|cuda:\d+ device type tensor to numpy|input type \(torch\.\S+\) and weight type|"
        r"indices should be either on cpu|arguments from the 'cuda' backend",
        ("torch",),
        "the model and its inputs are on the card that `device` names, and this line keeps or makes a tensor elsewhere: make it with "
        "device=x.device, register a constant as a buffer, move what a function reads by .to(…), and call .cpu() before .numpy()",
    ),
    Remedy(
        "host-memory",
        r"\bmemoryerror\b|signal sigkill|unable to allocate|std::bad_alloc",
        (),
        "the machine's memory does not suffice: a smaller batch ([inputs] shape), fewer loader workers; "
        "`paralign watch-memory` tells whether it grows from step to step and what is kept",
    ),
    Remedy(
        "shared-memory",
        r"bus error|signal sigbus|insufficient shared memory|no space left on device.*shm|dataloader worker .* (killed|exited)",
        (),
        "the loader's workers run out of shared memory: docker run --shm-size=8g, fewer workers, or (Paddle) use_shared_memory=False",
    ),
    Remedy(
        "optimizer-state",
        r"should in state dict|optimizer set error",
        ("paddle",),
        "the checkpoint holds no state of the optimizer for a layer that trains, as one saved in eval mode: load the weights alone with "
        "model.set_state_dict(paddle.load('x.pdparams')), and let the optimizer begin anew instead of loading the .pdopt",
    ),
    Remedy(
        "eval-backward",
        r"tensor holds no memory",
        ("paddle",),
        "a tensor has no values: mostly a recurrent layer (LSTM, GRU, SimpleRNN) whose backward pass runs in eval mode, for which Paddle "
        "has no kernel on a CPU: call model.train() at the start of every epoch, or after every evaluation that calls model.eval()",
    ),
    Remedy(
        "class-axis",
        r"input\(logits\) and input\(label\) should in same shape in dimensions except axis",
        ("paddle",),
        "Paddle's cross entropy looks for the classes along the last axis, PyTorch's along axis 1: write axis=1 where outputs have more "
        "than two axes, in cross_entropy(…) or CrossEntropyLoss(…); labels have the outputs' shape without that axis",
    ),
    Remedy(
        "forward-arguments",
        r"forward\(\) (takes .*positional arguments? but \d+ (was|were) given|missing \d+ required)",
        (),
        "the model is called with other inputs than its forward() takes: [inputs] or inputs() gives one table or value an argument; of "
        "a loader's batch all parts but the last are inputs, and the last is the labels: let build_dataloader give ((inputs, …), "
        "(labels, …))",
        "a layer of the model is called with other arguments than its forward() takes: compare the last line shown with the forward() "
        "that it calls; where the model hands its inputs on as they are, [inputs] tells what they are",
    ),
    Remedy(
        "nccl",
        r"nccl\s*error|ncclsystemerror|nccl_invalid|unhandled (system|cuda) error",
        (),
        "NCCL fails: mostly the environment; `paralign doctor` shows versions and drivers, NCCL_DEBUG = INFO in `env` says where; "
        "try nccl-tests (github.com/NVIDIA/nccl-tests)",
    ),
    Remedy(
        "trainers",
        r"out of all \d+ trainers",
        ("paddle",),
        "one of the processes ended: its own message is in workerlog.N of --log_dir, where N is its rank",
    ),
    Remedy(
        "static-graph",
        r"int\(tensor\) is not supported in static graph|in dynamic graph mode.*static|please call.*(enable_static|disable_static)",
        ("paddle",),
        "dynamic and static graphs are mixed: call paddle.disable_static() in the side's module, or build static programs in one function",
    ),
    Remedy(
        "crash",
        r"signal sig(segv|abrt|fpe|ill)|fatal error.*segmentation|c\+\+ traceback",
        ("paddle",),
        "compiled code crashed: GLOG_v = '4' in the side's `env` logs every operation into the log, and the last one is at fault; "
        "FLAGS_call_stack_level = 2 adds the stack of C++",
    ),
    Remedy(
        "crash",
        r"signal sig(segv|abrt|fpe|ill)",
        (),
        "compiled code crashed: PYTHONFAULTHANDLER = '1' in the side's `env` writes the Python lines that led there into the log",
    ),
)


def _is_of_a_layer(frame: str) -> bool:
    found = _FORWARD.match(frame)
    return found is not None and not found["file"].startswith(_OURS)


def remedy(kind: str, message: str, framework: str = "") -> Remedy | None:
    """The remedy of a failure.

    Args:
        kind: class name of the exception, or ``killed``, ``crashed``.
        message: its message, with the last lines of a log where it has them.
        framework: of the side, '' where it is not known.
    """
    text = f"{kind}: {message}"
    for each in REMEDIES:
        if framework and each.frameworks and framework not in each.frameworks:
            continue
        if not framework and each.frameworks and each.frameworks[0] not in text.lower():
            continue
        if re.search(each.pattern, text, re.IGNORECASE):
            return each
    return None
