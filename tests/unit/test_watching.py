"""What grows from step to step, with its line; loaders beside steps; padding; remedies; equivalents."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from pathlib import Path
from types import SimpleNamespace

import numpy as np
import pytest

from paralign.adapters.profile import profile_of
from paralign.capture import CaptureWriter
from paralign.checking import failed
from paralign.commands.watch import advice, explained
from paralign.comparison.trend import trend
from paralign.errors import WorkerFailed
from paralign.locate.lines.equivalents import say
from paralign.model import Divergence, Manifest, Point, StageResult
from paralign.report.language import say as translated
from paralign.report.language import speaking
from paralign.run import remedies
from paralign.run.remedies import remedy
from paralign.worker.protocol import LoaderTimed, LoaderTold, Loading, MemoryWatched
from paralign.worker.sides.session import Session
from paralign.worker.trainings.loading import loading, longer, padded, rebuilt

RANDOM = np.random.RandomState(0)

# -- trends ----------------------------------------------------------------------------------------------------------------------


def test_a_line_grows_and_a_constant_does_not():
    assert trend(range(30)).grows(0.5)
    assert not trend([5.0] * 30).grows(0.0)


def test_noise_is_no_growth():
    false = sum(trend(np.random.RandomState(n).randn(30)).grows(0.0) for n in range(300))
    assert false <= 2  # one in a thousand is expected


def test_growth_under_noise_is_found():
    assert trend(np.arange(30) * 0.3 + RANDOM.randn(30)).grows(0.1)


def test_a_cache_that_fills_up_does_not_grow():
    assert not trend([min(n, 10) for n in range(40)]).grows(0.5)


def test_a_fall_is_no_growth():
    assert not trend(range(30, 0, -1)).grows(0.5)


# -- memory ----------------------------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def _beside():
    """A process without what other tests have left: every step looks at all objects that the collector knows."""
    command = [sys.executable, "-u", str(Path(__file__).with_name("watched_sides.py"))]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        yield process
        process.stdin.close()
        process.wait(60)


@pytest.fixture
def watched(_beside, tmp_path):
    """What is found of a side of ``watched_sides.py``."""

    def ask(name):
        _beside.stdin.write(json.dumps([str(tmp_path), name]) + "\n")
        _beside.stdin.flush()
        line = next(line for line in _beside.stdout if line.startswith('{"watched"'))
        found = json.loads(line)["watched"]
        return found if isinstance(found, str) else SimpleNamespace(**found)

    return ask


def test_a_list_that_grows_is_named(watched):
    found = watched("a list")
    assert {"python", "tensors"} <= set(found.growing)  # the collector does not know arrays, as it does not know Paddle's tensors
    assert (found.containers[0]["holder"], found.containers[0]["entries"]) == ("Keeps.seen", 1.0)
    assert code(found.containers[0]["line"]) == "y = x * 2"
    assert found.fixes == ["bound what is kept (collections.deque(maxlen=…)), or clear it after each epoch"]  # it is on the host already


def test_a_dict_of_numbers_and_arrays_is_named(watched):
    """Such a dict is unknown to the collector too."""
    found = watched("a table")
    assert "tensors" in found.growing
    assert (found.containers[0]["holder"], found.containers[0]["type"]) == ("KeepsTable.by_number", "dict")
    assert code(found.containers[0]["line"]) == "self.by_number[len(self.by_number)] = x * 2"


def test_a_side_without_gradients_has_no_training_step(watched):
    said = watched("a list, trained")
    assert "framework 'numpy' has no gradients, and so no training step" in said
    assert "--what forward" in said


def code(line):
    path, _, number = line.rpartition(":")
    return Path(path).read_text().splitlines()[int(number) - 1].strip()


def test_what_is_bounded_does_not_grow(watched):
    found = watched("a list of two")
    assert (found.growing, found.containers) == ([], [])


@pytest.mark.torch
def test_what_the_sides_own_step_keeps_is_found(watched):
    found = watched("own step")
    assert "tensors" in found.growing
    assert code(found.containers[0]["line"]).startswith(("held.append", "loss ="))


@pytest.mark.torch
def test_a_step_that_keeps_nothing_does_not_grow(watched):
    assert watched("no own step").growing == []


@pytest.mark.torch
def test_an_own_step_that_wants_more_than_inputs_and_labels_is_said(watched):
    found = watched("a step of three")
    assert found.growing == []
    assert found.unwatched.startswith("ValueError: not enough values to unpack")


@pytest.mark.torch
def test_an_own_step_that_fails_without_a_loss_is_an_error(watched):
    assert watched("a step of three alone").startswith("not enough values to unpack")


@pytest.mark.parametrize(
    ("containers", "sizes", "slope", "expected"),
    [
        ([], [50, 49], 549, False),
        ([], [60, 240], 400, True),
        ([], [], 549, False),
        ([{"holder": "LOSSES"}], [], 549, True),
    ],
)
def test_what_python_keeps_counts_where_the_program_keeps_it(containers, sizes, slope, expected):
    """A framework that fills a cache of its own with each layer that is built is no growth of the program's."""
    assert explained(MemoryWatched(containers, [{"bytes": size} for size in sizes], [], 20), slope) == expected


@pytest.mark.paddle
def test_outputs_that_are_kept_are_named_with_their_fix(watched):
    found = watched("outputs")
    assert found.growing
    assert (found.containers[0]["holder"], found.containers[0]["tensor"]) == ("Net.history", True)
    assert code(found.containers[0]["line"]) in ("y = self.fc(x)", "net.history.append(y)")
    assert "detach" in found.fixes[0]


@pytest.mark.torch
@pytest.mark.parametrize(("keep", "grows"), [("a sum", True), ("numbers", False)])
def test_a_graph_that_grows_behind_one_tensor_is_named(watched, keep, grows):
    found = watched(keep)
    assert ("nodes" in found.growing) is grows
    assert not grows or (found.graphs[0]["holder"] == "Net.total" and any("no_grad" in fix for fix in found.fixes))


# -- loaders ---------------------------------------------------------------------------------------------------------------------


class Loader:
    """As the frameworks' loaders, whose samples cost time that workers share."""

    def __init__(self, dataset, batch_sampler, num_workers=0, collate_fn=None):
        self.dataset, self.batch_sampler, self.num_workers, self.collate_fn = dataset, batch_sampler, num_workers, collate_fn

    def __iter__(self):
        for batch in self.batch_sampler:
            time.sleep(0.004 / (1 + self.num_workers))
            yield batch


def test_workers_are_tried_and_the_best_is_advised(tmp_path):
    session = Session("candidate", {"build_dataloader": lambda _: Loader([], [np.zeros((2, 3))] * 12)}, "numpy")
    with CaptureWriter(tmp_path / "c", Manifest()) as writer:
        answer = loading(session, writer, Loading("train", [0, 4], 5.0), {})
    assert [(each.workers, each.batches) for each in answer.tried] == [(0, 31), (4, 31)]
    assert advice(answer)[0].startswith("set num_workers=4: a batch comes ")


class ReadAhead(Loader):
    """Workers that share the processor: they gain nothing, but have batches ready when the first is asked for."""

    def __iter__(self):
        ahead, ready = 2 * self.num_workers, 0
        for number, _ in enumerate(self.batch_sampler):
            if not ready:
                ready = min(max(1, ahead), len(self.batch_sampler) - number)
                time.sleep(0.002 * ready)
            ready -= 1
            yield np.zeros((2, 3))


def test_batches_that_workers_have_ready_are_no_gain(tmp_path):
    """Sixteen batches, all of them made by eight workers while the first is waited for."""
    session = Session("candidate", {"build_dataloader": lambda _: ReadAhead([], [[0, 1]] * 16)}, "numpy")
    with CaptureWriter(tmp_path / "c", Manifest()) as writer:
        answer = loading(session, writer, Loading("train", [0, 8], 5.0), {})
    assert advice(answer)[0].startswith("keep num_workers=0")


def test_workers_of_a_loader_with_few_batches_are_timed_from_the_start(tmp_path):
    """A loader that can be made in one way only cannot be made longer."""

    class Fixed(ReadAhead):
        def __init__(self):
            super().__init__([], [[0, 1]] * 16, 8)

    loader = Fixed()
    session = Session("candidate", {"build_dataloader": lambda _: loader}, "numpy")
    with CaptureWriter(tmp_path / "c", Manifest()) as writer:
        answer = loading(session, writer, Loading("train", [], 5.0), {})
    assert answer.tried[0].batches == 16
    assert answer.tried[0].seconds > 0.0019


@pytest.mark.parametrize("count", [1, 2])
def test_a_loader_of_one_batch_is_timed_by_giving_it_again(tmp_path, count):
    session = Session("candidate", {"build_dataloader": lambda _: Loader([], [np.zeros((2, 3))] * count, 2)}, "numpy")
    with CaptureWriter(tmp_path / "c", Manifest()) as writer:
        answer = loading(session, writer, Loading("train", [0], 5.0), {})
    assert (answer.tried[0].workers, answer.tried[0].batches) == (2, 31)
    assert advice(answer)[0].startswith("keep num_workers=2, the fastest of those tried")


def test_a_sampler_that_bears_one_round_leaves_the_times_of_few_batches(tmp_path):
    session = Session("candidate", {"build_dataloader": lambda _: Loader([], iter([np.zeros((2, 3))] * 5))}, "numpy")
    with CaptureWriter(tmp_path / "c", Manifest()) as writer:
        answer = loading(session, writer, Loading("train", [], 5.0), {})
    assert [(each.workers, each.batches) for each in answer.tried] == [(0, 5)]


STREAMS = {
    "torch": """
import torch
class Stream(torch.utils.data.IterableDataset):
    def __iter__(self):
        return iter([torch.zeros(3)] * {count})
def build_dataloader(split):
    return torch.utils.data.DataLoader(Stream(), batch_size=2)
""",
    "paddle": """
import numpy, paddle
class Stream(paddle.io.IterableDataset):
    def __iter__(self):
        return iter([numpy.zeros(3, "float32")] * {count})
def build_dataloader(split):
    return paddle.io.DataLoader(Stream(), batch_size=2)
""",
}


@pytest.mark.parametrize("framework", ["torch", "paddle"])
@pytest.mark.parametrize(("count", "said"), [(100, "keep num_workers=0, the one number"), (2, "the loader gives too few batches")])
def test_a_loader_of_a_data_set_without_indices_is_timed(tmp_path, framework, count, said):
    pytest.importorskip(framework)
    made = {}
    exec(STREAMS[framework].format(count=count), made)
    loader = made["build_dataloader"]("train")
    assert rebuilt(loader, 0, [[0, 1]]) is None
    other = longer(loader, 1)  # not read: workers are forked off this process, whose threads they would lack
    assert (other.num_workers, other.dataset) == (1, loader.dataset)
    session = Session("candidate", {"build_dataloader": made["build_dataloader"]}, framework)
    with CaptureWriter(tmp_path / "c", Manifest()) as writer:
        answer = loading(session, writer, Loading("train", [], 20.0), {})
    assert [each.workers for each in answer.tried] == [0]
    assert advice(answer)[0].startswith(said)


def answer(step, *seconds, own=0, cores=16, padding=()):
    tried = [LoaderTimed(w, 9, 0.1, s, 0.0) for w, s in zip((own, 4, 8), seconds, strict=False)]
    return LoaderTold(own, cores, tried, step=step, padding=list(padding))


@pytest.mark.parametrize(
    ("given", "said"),
    [
        (answer(0.1, 0.005, 0.002), "the reader takes 5% of a step: it is not what slows the training"),
        (answer(0.1, 0.2, 0.05, 0.03), "set num_workers=4: a batch comes 4.0 times as fast as with 0"),
        (answer(0.01, 0.2, 0.05, 0.03), "set num_workers=8: a batch comes 6.7 times as fast as with 0"),
        (answer(0.01, 0.2, 0.3, 0.4), "keep num_workers=0, the fastest of those tried: make samples cheaper (smaller files, fewer steps in Python)"),
        (answer(0.02, 0.003, 0.001), "set num_workers=4: a batch comes 3.0 times as fast as with 0"),
        (answer(0.1, 0.08, own=2), "the reader takes 0% of a step: it is not what slows the training"),
        (answer(None), "the loader gives too few batches to be timed"),
    ],
)  # fmt: skip
def test_the_advice_follows_from_the_times(given, said):
    assert advice(given)[0] == said


@pytest.mark.parametrize(
    ("spread", "advised"), [(0.0002, "set num_workers=4: "), (0.0012, "keep num_workers=0: times of so few batches vary too")]
)
def test_times_within_their_spread_advise_nothing(spread, advised):
    tried = [LoaderTimed(0, 3, 0.1, 0.00123, spread), LoaderTimed(4, 3, 0.1, 0.0006, spread / 20)]
    assert advice(LoaderTold(0, 16, tried, step=None, padding=[]))[0].startswith(advised)


def test_more_workers_than_cores_are_told():
    assert "2 cores" in advice(answer(0.01, 0.2, 0.05, 0.03, cores=2))[1]


def test_padding_and_what_sorting_saves():
    def row(length, width):
        return [*RANDOM.randint(1, 99, length), *[0] * (width - length)]

    mixed = [np.array([row(n, 20) for n in lengths]) for lengths in ([20, 3, 4, 19], [5, 18, 2, 20], [20, 1, 20, 2])]
    share, after, mark = padded(mixed)
    assert (round(share, 3), mark) == (0.442, 0)
    assert after < share / 2
    assert padded([RANDOM.randint(0, 9, (8, 5)) for _ in range(4)]) is None
    assert padded([np.zeros((4, 0), int)]) is None
    assert padded([]) is None


# -- failures and operations ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kind", "message", "framework", "found", "says"),
    [
        ("SystemError", "ResourceExhaustedError: Out of memory error on GPU 0. Cannot allocate 2GB memory on GPU 0", "paddle", "gpu-memory", "FLAGS_eager_delete_tensor_gb"),
        ("OutOfMemoryError", "CUDA out of memory. Tried to allocate 20 MiB", "torch", "gpu-memory", "batch size"),
        ("killed", "by signal SIGKILL during backward", "torch", "host-memory", "watch-memory"),
        ("AssertionError", "Optimizer set error, batch_norm_1.w_0_moment_0 should in state dict.", "paddle", "optimizer-state", "set_state_dict"),
        ("RuntimeError", "(PreconditionNotMet) Tensor holds no memory. Call Tensor::mutable_data firstly.", "paddle", "eval-backward", "model.train()"),
        ("ValueError", "(InvalidArgument) Input(Logits) and Input(Label) should in same shape in dimensions except axis.", "paddle", "class-axis", "axis=1"),
        ("TypeError", "Net.forward() takes 3 positional arguments but 4 were given", "torch", "forward-arguments", "build_dataloader"),
        ("TypeError", "forward() missing 1 required positional argument: 'lengths'", "paddle", "forward-arguments", "[inputs]"),
        ("RuntimeError", "NCCL error in: ProcessGroupNCCL.cpp", "torch", "nccl", "doctor"),
        ("RuntimeError", "ABORT!!! Out of all 4 trainers, the trainer process with rank=[1] was aborted", "paddle", "trainers", "workerlog"),
        ("crashed", "by signal SIGSEGV during forward", "paddle", "crash", "GLOG_v"),
        ("crashed", "by signal SIGSEGV during forward", "torch", "crash", "PYTHONFAULTHANDLER"),
        ("RuntimeError", "DataLoader worker (pid 7) is killed by signal: Bus error", "torch", "shared-memory", "shm-size"),
    ],
)  # fmt: skip
def test_a_known_failure_has_its_remedy(kind, message, framework, found, says):
    known = remedy(kind, message, framework)
    assert known is not None
    assert (known.id, says in known.fix) == (found, True)


@pytest.mark.parametrize(
    ("frames", "told"),
    [
        ((), "the model is called"),
        (["net.py:3 in train_step: y = model(x)"], "the model is called"),
        ([f"{Path(remedies.__file__).parents[1] / 'adapters' / 'any.py'}:3 in forward: y = model(x)"], "the model is called"),
        (["net.py:3 in forward_all: y = model(x)"], "the model is called"),
        (["net.py:3 in forward: y = self.block(x)"], "a layer of the model is called"),
        (["run.py:9 in train_step: y = model(x)", "net.py:3 in forward: y = self.block(x)"], "a layer of the model is called"),
        (["net.py:3 in forward: y = self.part(x)", "net.py:7 in part: y = self.block(x)"], "a layer of the model is called"),
    ],
)
def test_arguments_of_a_layer_are_not_taken_for_the_models(frames, told):
    failure = WorkerFailed("TypeError", "Block.forward() missing 1 required positional argument: 'mask'", side="candidate", frames=frames)
    fix = failed("forward", failure, "paddle").failure["remedy"]["fix"]
    assert fix.startswith(told)
    with speaking("zh"):
        assert translated(fix) != fix


@pytest.mark.parametrize(
    "message",
    [
        "shapes (2,3) and (4,5) not aligned",
        "name 'memory' is not defined",
        "should be in the state",
        "f() takes 1 positional argument but 2 were given",
    ],
)
def test_other_failures_have_none(message):
    assert remedy("ValueError", message, "paddle") is None


@pytest.mark.parametrize(
    ("operation", "says"),
    [
        ("aten.gather.default", "take_along_axis"),
        ("aten.masked_fill.Scalar", "paddle.where"),
        ("aten._pack_padded_sequence.default", "sequence_length"),
        ("aten.avg_pool2d.default", "exclusive=False"),
        ("aten.scatter.src", "put_along_axis"),
    ],
)
def test_the_equivalent_is_said_by_name(operation, says):
    divergence = Divergence(Point("m", operation), Point("m", "gather"))
    result = StageResult("forward", divergence=divergence, divergences=[divergence])
    say(result, "paddle")
    say(result, "paddle")
    assert [says in note for note in divergence.notes] == [True]


@pytest.mark.parametrize(
    ("code", "says"),
    [
        ("rows = paddle.gather(h, index, axis=1)", ["take_along_axis"]),
        ("x = x.scatter(index, value).masked_fill(mask, 0)", ["put_along_axis", "paddle.where"]),
        ("gathered = regather(gather_index)", []),
        (None, []),
    ],
)
def test_what_the_line_calls_by_a_name_of_pytorch_is_said(code, says):
    divergence = Divergence(Point("m", "aten.addmm.default"), Point("m", "linear", code=code))
    say(StageResult("forward", divergences=[divergence]), "paddle")
    assert [said in note for said, note in zip(says, divergence.notes, strict=True)] == [True] * len(says)


def test_other_operations_say_nothing():
    assert profile_of("paddle").equivalent("aten.mm.default") is None
    assert profile_of("torch").equivalent("aten.gather.default") is None
    say(StageResult("forward", divergences=[Divergence(None, None)]), "paddle")


def test_an_object_that_cannot_be_asked_what_it_is_is_passed_over(watched):
    assert watched("a list") is not None  # beside ``watched_sides.HELD``
