"""The stage ``distributed``: right programs agree, wrong ones are told by what they do, failures are told by the rank that began them."""

from __future__ import annotations

import sys
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from paralign.api import check_project
from paralign.capture import CaptureWriter
from paralign.errors import EnvironmentUnavailable, UsageError, WorkerFailed
from paralign.model import ALIGNED, DIVERGED, Manifest, Pair, StageResult
from paralign.run import marked
from paralign.run.project import read
from paralign.run.ranks import Ranks
from paralign.stages.distributed import behaviour
from paralign.stages.distributed.behaviour import Average, Evidence, Found, Spread, Way, Writers
from paralign.stages.distributed.stage import _tell
from paralign.stages.distributed.traits import Trait, _made, _of_path, settled

sys.path.insert(0, str(Path(__file__).parent))
import ranked

from paralign.worker.protocol import Ranked, Share
from paralign.worker.ranks.rank import _plain

draw = np.random.RandomState(0)

#: seconds after which a group that hangs is ended here; its ranks start within two
SHORT = 10


def checked(folder, fault=""):
    result, _ = check_project(ranked.write(folder, fault), ["distributed"])
    return result["distributed"]


def found(result):
    return {p.key: p.notes[0].partition(" in the reference, ")[2] for p in result.pairs if p.verdict == DIVERGED and p.judged}


def left_over(ranks):
    """Processes of a launch that still live."""
    return marked.bearers(ranks._mark)


def test_a_right_pair_is_aligned_and_says_what_it_looked_at(tmp_path):
    result = checked(tmp_path)
    assert (result.verdict, found(result), result.warnings) == (ALIGNED, {}, [])
    told = {p.key: p.candidate.text for p in result.pairs}
    assert told["samples"] == "each sample is given once, a few twice to fill the shares; 25 samples; 1 of padding"
    assert told["update"] == Way.JOINED.value
    assert told["metric error"] == Average.SAMPLES.value
    assert told["running statistics"] == "of all ranks' samples: synchronised"
    assert [str(c) for c in result.coverage] == ["2 processes", "3 steps"]
    assert result.notes[0].startswith("learning rate: not scaled with the number of ranks; the guide (3.12.4) multiplies it")
    assert result.notes[1].endswith("1 of padding")


def test_faults_of_numbers_files_and_seeds_are_found_at_once(tmp_path):
    result = checked(tmp_path, "sum,metric,saves,log,prints,seeds,start")
    assert found(result) == {
        "start of the ranks": "other weights in each rank in the candidate",
        "update": "the sum of what the ranks have, not the mean in the candidate",
        "metric error": "averaged over the ranks, whatever number of samples each has in the candidate",
        "saving": "several ranks write the same in the candidate",
        "files": "several ranks write the same file in the candidate",
        "draws of numpy": "the same numbers in all ranks in the candidate",
    }
    assert any("lines printed" in warning for warning in result.warnings)
    lines = {d.pair.key: d.candidate.code for d in result.divergences}
    assert lines["saving"].startswith("np.savez(")
    assert lines["files"].startswith('with open("train.log"')
    assert lines["update"].startswith("def train_step(")


def test_seeds_that_nothing_draws_from_are_a_warning(tmp_path):
    result = checked(tmp_path, "seeds,still")
    assert (result.verdict, found(result)) == (ALIGNED, {})
    assert [w for w in result.warnings if w.startswith("draws of numpy: the same numbers in all ranks in the candidate; other numbers")]


@pytest.mark.parametrize("where", ["loader", "ahead"])
def test_what_building_or_opening_the_loader_draws_counts(tmp_path, where):
    result = checked(tmp_path, f"seeds,still,{where}")
    assert found(result) == {"draws of numpy": "the same numbers in all ranks in the candidate"}


def test_ranks_that_exchange_nothing_and_share_no_samples_are_found(tmp_path):
    assert {"replicas", "update", "running statistics", "learning rate"} == set(found(checked(tmp_path, "alone,statistics,rate")))


def test_a_sampler_that_gives_every_rank_all_samples_is_found_and_a_fault_of_both_sides_warned_of(tmp_path):
    folder = ranked.write(tmp_path, "sampler,saves")
    text = (folder / "paralign.toml").read_text()
    (folder / "paralign.toml").write_text(text.replace('module = "reference.py"', 'module = "reference.py"\nenv = { FAULT = "saves" }'))
    result = check_project(folder, ["distributed"])[0]["distributed"]
    assert found(result) == {"samples": "every rank is given all samples; 25 samples; 25 given again in the candidate"}
    assert result.warnings[0].startswith("both sides: saving: several ranks write the same")


def launched(folder, fault, timeout=60, **settings):
    """What the ranks of a side with a fault record, without a check around it."""
    project = read(ranked.write(folder, fault, timeout))
    with CaptureWriter(folder / "weights", Manifest(side="candidate", stage="weights")) as writer:
        writer.add("parameters.weight", draw.randn(5, 2), role="parameter")
    ranks = Ranks("candidate", project.candidate, project.settings.distributed, folder / "ranks", folder, **settings)
    (folder / "captures").mkdir()
    return ranks, lambda: ranks.record(folder / "weights", folder / "captures", Ranked("train", "val", 1))


def test_captures_of_the_ranks_are_read_as_one(tmp_path):
    ranks, record = launched(tmp_path, "")
    merged = record()
    assert len(merged.ranks) == 2
    batches = [merged.array(merged.select(role="input", rank=rank, leaf="0")[0]) for rank in (0, 1)]
    data = np.random.RandomState(3).randn(25, 5)
    assert [np.array_equal(batch, data[rank:8:2]) for rank, batch in enumerate(batches)] == [True, True]
    assert len({record.id for record in merged.records}) == len(merged.records)
    assert left_over(ranks) == []


def test_a_rank_that_raises_is_told_with_its_own_frames(tmp_path):
    _, record = launched(tmp_path, "raises")
    with pytest.raises(WorkerFailed) as caught:
        record()
    failure = caught.value
    assert (failure.type, failure.side) == ("ValueError", "candidate")
    assert "rank 1 of 2 failed first, during step 0" in failure.message
    assert "`Out of all … trainers` only says that rank 1 ended" in failure.message
    assert failure.frames[-1].endswith('raise ValueError("sample 3 has no label")')
    assert failure.log.endswith("workerlog.1")


def test_a_rank_that_dies_is_told_from_those_that_the_launcher_ended(tmp_path):
    ranks, record = launched(tmp_path, "dies")
    with pytest.raises(WorkerFailed, match=r"rank 1 of 2 failed first.*exited with code 9 before its job was done") as caught:
        record()
    assert "rank 0: was ended by the launcher" in caught.value.message
    assert left_over(ranks) == []


def test_ranks_that_hang_end_by_the_time_limit_and_are_named(tmp_path):
    ranks, record = launched(tmp_path, "hangs", SHORT)
    began = time.monotonic()
    with pytest.raises(WorkerFailed) as caught:
        record()
    assert time.monotonic() - began < SHORT + 5
    assert caught.value.type == "timeout"
    assert "rank 1 is at" in caught.value.message
    assert "time.sleep(1000)" in caught.value.message
    assert any(frame.startswith("rank 0: ") and "in exchange" in frame for frame in caught.value.frames)
    assert left_over(ranks) == []


def test_a_rank_that_hangs_while_another_gives_up_waiting_is_named_with_its_line(tmp_path):
    ranks, record = launched(tmp_path, "absent", 60)
    with pytest.raises(WorkerFailed) as caught:
        record()
    assert "rank 0 of 2 failed first" in caught.value.message
    assert "rank 1 is at" in caught.value.message
    assert "rank 0 waited for rank 1, which does not take part" in caught.value.message
    assert any(frame.startswith("rank 1: ") and "time.sleep(1000)" in frame for frame in caught.value.frames)
    assert left_over(ranks) == []


@pytest.mark.parametrize(
    ("edit", "words"),
    [
        (("launch.py", "WORLD_SIZE=str(count)", 'WORLD_SIZE="3"'), "the launcher has started 3 processes, 2 are wanted"),
        (("launch.py", "RANK=str(rank), ", ""), "the launcher gives its processes no number"),
        (("launch.py", "import os", "raise SystemExit('no such partition')\nimport os"), "no such partition"),
        (
            ("candidate.py", "    return model\n\n\nclass SGD", "    return [model]\n\n\nclass SGD"),
            "distribute(model) returned a list, which is no",
        ),
        (("candidate.py", "    return model\n\n\nclass SGD", "    return lambda x: model(x)\n\n\nclass SGD"), "are called otherwise than"),
    ],
)
def test_launchers_and_functions_that_cannot_work_are_told_in_words(tmp_path, edit, words):
    _, record = launched(tmp_path, "")
    name, old, new = edit
    text = (tmp_path / name).read_text()
    assert old in text
    (tmp_path / name).write_text(text.replace(old, new, 1))
    with pytest.raises(WorkerFailed) as caught:
        record()
    assert words in caught.value.message


def test_a_launcher_that_is_not_there_is_named(tmp_path):
    ranks, record = launched(tmp_path, "")
    ranks.distributed = replace(ranks.distributed, commands={"": "./no-such-launcher {program}"})
    with pytest.raises(EnvironmentUnavailable, match="the launcher of the candidate does not start"):
        record()


# -- how values of the ranks are taken ------------------------------------------------------------------------------------------

ALONE = [{"w": draw.randn(3, 2), "b": draw.randn(2)} for _ in range(2)]
MEAN = {name: (ALONE[0][name] + ALONE[1][name]) / 2 for name in ALONE[0]}
JOINED = {name: value + 0.1 for name, value in MEAN.items()}  # as where layers normalise over the batch


def told(value, other=None, sizes=(4, 4), joined=None):
    return Evidence([value, value if other is None else other], ALONE, JOINED if joined is None else joined, None, sizes).told().way


def times(values, factor):
    return {name: value * factor for name, value in values.items()}


def weighted(first, second):
    return {name: ALONE[0][name] * first + ALONE[1][name] * second for name in ALONE[0]}


def test_the_tensor_that_differs_most_is_that_of_the_odd_rank():
    odd = {**MEAN, "b": MEAN["b"] * 5.0}
    found = Evidence([MEAN, odd, {**MEAN, "w": MEAN["w"] * 1.001}], [*ALONE, ALONE[0]], JOINED, None, (4, 4, 4)).told()
    assert (found.way, found.worst) == (Way.OTHER, "b")


@pytest.mark.parametrize(
    ("value", "way"),
    [
        (JOINED, Way.JOINED),
        (MEAN, Way.SAMPLES),
        (times(MEAN, 2.0), Way.SUM),
        (times(JOINED, 2.0), Way.TIMES),
        (times(JOINED, 0.5), Way.PART),
        (ALONE[0], Way.FIRST),
        (times(MEAN, 3.0), Way.OTHER),
        ({**MEAN, "b": np.array([np.nan, 0.0])}, Way.OTHER),
    ],
)
def test_how_gradients_were_brought_together_is_told_from_their_values(value, way):
    assert told(value) is way


def test_rounding_is_measured_on_the_batch_that_rounds_most():
    def rough(values, error):
        return {name: value * (1 + error) for name, value in values.items()}

    def way(error):
        native = [rough(ALONE[0], error), ALONE[1], rough(JOINED, 1e-7)]
        found = rough(MEAN, 1e-4)
        return Evidence([found, found], ALONE, JOINED, native, (4, 4)).told().way

    assert way(1e-4) is Way.SAMPLES
    assert way(1e-7) is Way.OTHER


def test_ranks_of_uneven_batches_tell_a_mean_over_ranks_from_one_over_samples():
    assert told(weighted(0.75, 0.25), sizes=(6, 2)) is Way.SAMPLES
    assert told(weighted(0.5, 0.5), sizes=(6, 2)) is Way.MEAN
    assert told(ALONE[0], ALONE[1]) is Way.OWN
    assert told(ALONE[0], MEAN) is Way.SOME
    assert told(times(ALONE[0], 3.0), MEAN) is Way.OTHER
    assert told({}, joined={}) is Way.NOTHING


def test_an_update_may_be_off_by_the_rounding_of_its_weights_and_no_more():
    rounded = times(MEAN, 1 + 1e-3)
    size = float(np.sqrt(sum(np.sum(value**2) for value in MEAN.values())))
    ways = [_made(rounded, MEAN, 1.0, resolution).way for resolution in (0.0, 1e-3 * size, 1.0 * size)]
    assert ways == [Way.OTHER, Way.GIVEN, Way.OTHER]  # weights so coarse that the update drowns in them vouch for nothing


def share(*batches, length=None, ended=True):
    return Share("index", [list(b) for b in batches], ended, length)


@pytest.mark.parametrize(
    ("ranks", "spread", "missing", "twice"),
    [
        ([share([0, 2], [4, 6]), share([1, 3], [5, 7])], Spread.ONCE, 0, 0),
        ([share([0, 2], [4, 6]), share([1, 3], [5, 0])], Spread.SHORT, 1, 1),
        ([share([0, 2], [4, 6, 7]), share([1, 3], [5, 0])], Spread.PADDED, 0, 1),
        ([share([0, 2], [4, 6]), share([1, 3])], Spread.SHORT, 2, 0),
        ([share(range(8)), share(range(8))], Spread.EVERY, 0, 8),
        ([share([0, 1], [2, 3]), share([0, 1], [2, 3])], Spread.UNEVEN, 4, 4),
        ([share([0, 2], ended=False), share([1])], Spread.UNKNOWN, 0, 0),
    ],
)
def test_how_samples_are_spread_is_told_from_their_numbers(ranks, spread, missing, twice):
    result = behaviour.shares(ranks, share(range(4), range(4, 8), length=8))
    if spread is Spread.SHORT and twice:
        spread = Spread.UNEVEN  # one is given twice while another is given to nobody
    assert (result.spread, result.missing, result.twice) == (spread, missing, twice)


def test_batches_of_uneven_number_are_said():
    assert "batches by rank: 2, 1" in behaviour.shares([share([0, 1], [2]), share([3])], share(range(4), length=4)).told()


@pytest.mark.parametrize(
    ("values", "way"),
    [
        ((0.5, 0.5), Average.SAMPLES),
        ((0.6, 0.6), Average.RANKS),
        ((1.2, 1.2), Average.SUM),
        ((0.4, 0.8), Average.OWN),
        ((0.4, 0.4), Average.FIRST),
        ((0.55, 0.55), Average.OTHER),
        ((0.4, 0.7), Average.OTHER),
    ],
)
def test_what_a_metric_is_the_average_of_is_told_from_the_ranks_own(values, way):
    assert behaviour.average(values, [0.4, 0.8], [6, 2], 0.5) is way


def test_padding_that_counts_in_a_metric_is_told():
    assert behaviour.average((0.525, 0.525), [0.4, 0.8], [11, 5], 0.5) is Average.PADDED
    assert behaviour.average((0.6, 0.6), None, None, 0.5) is Average.OTHER


def test_a_metric_that_is_no_mean_is_told_by_what_all_ranks_evaluated():
    assert behaviour.average((0.55, 0.55), [0.4, 0.8], [6, 2], 0.5, 0.55) is Average.PADDED
    assert behaviour.average((0.6, 0.6), [0.4, 0.8], [6, 2], 0.5, 0.55) is Average.RANKS
    assert behaviour.average((0.7, 0.7), [0.4, 0.8], [6, 2], 0.5, 0.55) is Average.OTHER
    assert behaviour.average((0.475, 0.475), [0.4, 0.8], [13, 3], 0.5, 0.55) is Average.WEIGHTED


#: a metric that keeps a state and is a ratio of sums, over shares that are filled up
RATIO = (
    ranked.SIDE[: ranked.SIDE.index("def metric(")]
    .replace("if SIZE > 1:  # no sample twice", "if False:")
    .replace("loader = Loader(Data(count), 4, 1)", "loader = Loader(Data(count), 4, SIZE)")
    + """
class Ratio:
    def reset(self):
        self.sums = np.zeros(2)
    def update(self, outputs, labels):
        self.sums = self.sums + [np.abs(outputs - labels).sum(), np.abs(labels).sum()]
    def compute(self):
        return {"ratio": float(self.sums[0] / self.sums[1])}

metric = Ratio()

def evaluate(model):
    metric.reset()
    for x, y in build_dataloader("val"):
        metric.update(model(x), y)
    if SIZE > 1 and "metric" in FAULT:
        return {"ratio": np.mean(exchange(metric.compute()["ratio"]))}
    if SIZE > 1:
        metric.sums = sum(exchange(metric.sums))
    return metric.compute()
"""
)


@pytest.mark.parametrize(("fault", "told"), [("", Average.PADDED), ("metric", Average.RANKS)])
def test_a_metric_that_keeps_a_state_is_held_against_that_of_all_ranks_samples(tmp_path, fault, told):
    result, _ = check_project(ranked.write(tmp_path, fault, reference=RATIO, candidate=RATIO), ["distributed"])
    pair = next(p for p in result["distributed"].pairs if p.key == "metric ratio")
    assert (pair.reference.text, pair.candidate.text) == (Average.PADDED.value, told.value)
    assert pair.verdict == (DIVERGED if fault else ALIGNED)
    fixes = [f.fix for f in result["distributed"].findings]
    assert [fix.startswith("bring together what the metric is made of") for fix in fixes] == ([True] if fault else [])


def test_a_metric_that_does_not_take_what_all_ranks_evaluated_is_not_known(tmp_path):
    side = RATIO.replace("self.sums = np.zeros(2)", "self.sums, self.left = np.zeros(2), list(range(9))").replace(
        "        self.sums = self.sums +",
        "        [self.left.pop() for _ in labels]  # ten are nine, and one to fill the shares\n        self.sums = self.sums +",
    )
    assert side.count("self.left") == 2
    result, _ = check_project(ranked.write(tmp_path, "", reference=side, candidate=side), ["distributed"])
    assert result["distributed"].failure is None
    assert [p.verdict for p in result["distributed"].pairs if p.key == "metric ratio"]


#: batches whose samples are as long as those of their own rank, as text that is padded to the longest
LONG = (
    ranked.SIDE.replace("self.dataset.x[numbers], ", "np.repeat(self.dataset.x[numbers][:, None], 3 + RANK, axis=1), ")
    .replace("    def __call__(self, x):", "    def __call__(self, x):\n        x = x.mean(1) if x.ndim == 3 else x")
    .replace("    x, y = batch\n", "    x, y = batch\n    x = x.mean(1)\n")
)


@pytest.mark.parametrize("fault", ["", "sum", "alone"])
def test_batches_that_cannot_be_joined_are_held_against_each_by_itself(tmp_path, fault):
    result, _ = check_project(ranked.write(tmp_path, fault, reference=LONG, candidate=LONG), ["distributed"])
    stage = result["distributed"]
    assert stage.verdict == (DIVERGED if fault else ALIGNED), stage.failure
    update = next(p for p in stage.pairs if p.key == "update")
    assert update.reference.text == Way.SAMPLES.value
    assert update.candidate.text == {"": Way.SAMPLES, "sum": Way.SUM, "alone": Way.OWN}[fault].value
    assert [note for note in stage.notes if "could not be joined" in note]


def test_ways_that_the_batches_of_one_side_do_not_tell_apart_are_no_difference():
    def trait(way, *also):
        return Trait("gradients", way.value, found=Found(way, also=also))

    one, other = settled(trait(Way.JOINED, Way.SAMPLES, Way.MEAN), trait(Way.SAMPLES, Way.MEAN))
    assert (one.told, other.told) == (Way.SAMPLES.value, Way.SAMPLES.value)
    assert Way.JOINED.value in one.remark
    one, other = settled(trait(Way.JOINED, Way.MEAN), trait(Way.SAMPLES, Way.MEAN))
    assert one.told == other.told == Way.MEAN.value
    one, other = settled(trait(Way.JOINED, Way.SAMPLES), trait(Way.SUM))
    assert (one.told, other.told) == (Way.JOINED.value, Way.SUM.value)
    one, other = settled(trait(Way.JOINED, Way.FIRST, Way.OWN), trait(Way.FIRST))  # equal batches allow any way, sound or not
    assert (one.told, other.told) == (Way.JOINED.value, Way.FIRST.value)


def test_what_a_retold_side_allows_besides_is_said_of_either_side():
    result = StageResult("distributed")
    retold = Trait("gradients", "the mean", remark="one side's batches allow this and: the sum")
    _tell(result, Pair("gradients", None, None, verdict=ALIGNED), [retold, Trait("gradients", "the mean")])
    assert result.notes == ["gradients: one side's batches allow this and: the sum"]
    _tell(result, Pair("batch", None, None, verdict=DIVERGED), [Trait("batch", "4", remark="of the reference"), Trait("batch", "5")])
    assert len(result.notes) == 1


def test_a_figure_of_another_name_is_the_only_one_there_is():
    assert _of_path({"": 0.5}, "f1", {"f1": 0.4}) == 0.5
    assert _of_path({"f1": 0.3, "": 0.5}, "f1", {"f1": 0.4}) == 0.3
    assert _of_path({"": 0.5}, "f1", {"f1": 0.4, "accuracy": 0.9}) is None


def test_who_writes_is_told_from_the_names():
    assert behaviour.writers([[], []]) is Writers.NONE
    assert behaviour.writers([["a"], []]) is Writers.FIRST
    assert behaviour.writers([["a"], ["b"]]) is Writers.EACH
    assert behaviour.writers([["a"], ["a", "b"]]) is Writers.SAME
    assert behaviour.writers([[], ["a"]]) is Writers.ANOTHER


# -- settings ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("nproc = 1", "'nproc' must lie between 2 and 64"),
        ("steps = 0", "'steps' must lie between 1 and 1000"),
        ('launcher = "slurm"', "'slurm' is no launcher"),
        ('command = "mpirun -n {nproc}"', "it has no argument {program}"),
        ('command = "mpirun -n {n} {program}"', "the unknown placeholder {n}"),
        ('command = "mpirun \'x {program}"', "is no command: No closing quotation"),
        ("rank = 2", "unknown key 'rank'"),
    ],
)
def test_a_table_that_cannot_work_is_refused(tmp_path, line, words):
    folder = ranked.write(tmp_path)
    text = (folder / "paralign.toml").read_text().partition("[distributed]")[0]
    (folder / "paralign.toml").write_text(f"{text}[distributed]\n{line}\n")
    with pytest.raises(UsageError, match=r"(?s)" + words.replace("{", r"\{")):
        read(folder)


def test_each_side_has_its_frameworks_launcher_unless_another_is_named(tmp_path):
    folder = ranked.write(tmp_path)
    text = (folder / "paralign.toml").read_text().partition("[distributed]")[0]
    (folder / "paralign.toml").write_text(f'{text}[distributed]\nnproc = 4\ncandidate_command = "mpirun -n {{nproc}} {{program}}"\n')
    settings = read(folder).settings.distributed
    torchrun = settings.arguments("reference", "torch", "python", ["main.py"], Path("logs"), "cpu")
    assert torchrun[:6] == ["python", "-m", "torch.distributed.run", "--standalone", "--nproc_per_node", "4"]
    mpirun = settings.arguments("candidate", "paddle", "python", ["main.py"], Path("logs"), "cpu")
    assert mpirun == ["mpirun", "-n", "4", "python", "main.py"]
    with pytest.raises(UsageError, match="no launcher of its own"):
        settings.launcher("reference", "numpy")


class Seeded:
    """A generator's state as Paddle's tells it: with where it lies."""

    def __init__(self, number):
        self.number = number

    def __str__(self):
        return f"-1 {self.number} 0 {id(self):#x} 8597922599604553149"


def test_generators_of_two_processes_are_known_by_their_numbers_not_by_where_they_lie():
    first, again, other = Seeded(1), Seeded(1), Seeded(2)
    assert str(first) != str(again)
    assert _plain([first]) == _plain([again])
    assert _plain([first]) != _plain([other])
