"""How far a port has come: what checks keep of stages, and what `paralign status` makes of it."""

from __future__ import annotations

import json
import shutil
from dataclasses import replace

import pytest

from paralign import cli
from paralign.api import check_project
from paralign.errors import CaptureFormatError, UsageError
from paralign.progress import kept
from paralign.progress.evidence import look
from paralign.progress.steps import STEPS, State, most_pressing, status
from paralign.run.project import read
from paralign.trainlog.lines import Row, as_root
from paralign.worker.process.files import ABSENT

LOSS = """
def loss(outputs, labels):
    return float(np.square(outputs).mean())
"""


@pytest.fixture(scope="module")
def once(tmp_path_factory, project_in):
    """A numpy port whose weights, forward, data and metric were checked, and a copy of its folder."""
    folder = tmp_path_factory.mktemp("checked") / "port"
    folder.mkdir()
    project = project_in(folder)
    for side in ("reference", "candidate"):
        project.append(side, LOSS)
    result, _ = check_project(project.folder, ["weights", "forward", "data", "metric"])
    assert {stage.name: stage.verdict for stage in result.stages} == dict.fromkeys(("weights", "forward", "data", "metric"), "aligned")
    shutil.copytree(folder, folder.with_name("copy"))
    return project


@pytest.fixture
def checked(once):
    """The same, put back as it was after each test: what was kept knows files by absolute path."""
    yield once
    shutil.rmtree(once.folder)
    shutil.copytree(once.folder.with_name("copy"), once.folder)
    once.settings["more"] = ""


def states(project, **options):
    return {each.step.number: each.state for each in status(project.folder, **options).steps}


def one(project, number, **options):
    return next(each for each in status(project.folder, **options).steps if each.step.number == number)


@pytest.mark.parametrize("command", ["status", "logbook", "pack"])
def test_an_output_folder_that_was_named_and_is_not_there_is_wrong_usage(once, tmp_path, capsys, command):
    assert cli.main([command, str(once.folder), "--result", str(tmp_path / "nowhere")]) == 2
    caught = capsys.readouterr()
    assert "there is no such folder" in caught.err
    assert "--result" in caught.err
    assert not caught.out


def test_the_steps_are_the_guides_twelve_with_six_checkpoints():
    assert [step.number for step in STEPS] == [f"3.{n}" for n in range(1, 13)]
    assert sorted(step.checkpoint for step in STEPS if step.checkpoint) == [1, 2, 3, 4, 5, 6]
    assert all(set(step.title) == {"en", "zh"} for step in STEPS)


def test_a_new_project_has_every_step_open(project):
    found = status(project.folder)
    assert {each.state for each in found.steps} == {State.OPEN}
    assert found.code == 4
    assert found.next.command == f"paralign check {project.folder} weights forward"


def test_what_was_checked_is_done_and_right_after_the_check_nothing_is_stale(checked):
    found = states(checked)
    assert {number for number, state in found.items() if state is State.DONE} == {"3.1", "3.2", "3.3"}
    assert {number for number, state in found.items() if state is State.OPEN} == set(found) - {"3.1", "3.2", "3.3"}
    assert status(checked.folder).next.command == f"paralign check {checked.folder} loss"


def test_a_later_check_of_one_stage_leaves_what_is_known_of_the_others(checked):
    check_project(checked.folder, ["loss"])
    assert [stage["name"] for stage in checked.report()["stages"]] == ["loss"]
    assert states(checked)["3.1"] is State.DONE


def test_code_that_has_changed_makes_what_used_it_stale(checked):
    checked.edit("candidate", "x / 2", "x * 0.5")
    each = one(checked, "3.2")
    assert (each.state, each.why) == (State.STALE, "data was aligned; since then changed: candidate.py")
    assert each.command == f"paralign check {checked.folder} data"
    assert status(checked.folder).code == 4
    check_project(checked.folder, ["data"])
    assert states(checked)["3.2"] is State.DONE


@pytest.mark.parametrize(
    ("more", "stale"),
    [
        ("[infer]\npaths = ['a.txt']", set()),
        ("[report]\ndiff_threshold = 1e-3", set()),
        ("[training]\nruns = 2", set()),
        ("[tolerance.metric]\nratio = 20", {"3.3"}),
        ("[tolerance]\nratio = 20", {"3.1", "3.2", "3.3"}),
    ],
)
def test_a_setting_makes_stale_what_depends_on_it(checked, more, stale):
    (checked.folder / "a.txt").write_text("1")
    checked.write(more=more)
    assert {number for number, state in states(checked).items() if state is State.STALE} == stale


def test_a_file_beside_the_code_that_nobody_reads_changes_nothing(checked):
    for name in ("notes.md", "train.log"):
        (checked.folder / name).write_text("of the user's own")
    assert [number for number, state in states(checked).items() if state is State.STALE] == []


def test_what_a_side_lists_or_reads_is_kept_but_for_listings_of_code_and_files_that_are_gone(checked, tmp_path):
    project = read(checked.folder)
    gone, there, data = tmp_path / "cache.py", tmp_path / "there.npy", checked.folder / "pictures"
    there.write_bytes(b"1")
    data.mkdir()
    own = str(checked.folder / "removed_meanwhile.txt")
    used = {str(gone): "1", str(there): "2", str(data): "3", str(checked.folder): "4", own: "5", str(tmp_path / "missed"): ABSENT}
    assert set(kept._lasting(used, project)) == {str(there), str(data), own, str(tmp_path / "missed")}


def test_training_data_are_a_step_of_their_own(checked):
    checked.write(more="[data]\nsplit = 'train'")
    assert one(checked, "3.7").state is State.OPEN
    check_project(checked.folder, ["data"])
    found = states(checked)
    assert (found["3.2"], found["3.7"]) == (State.DONE, State.DONE)


def test_one_check_over_several_splits_counts_for_both_steps(checked):
    checked.write(more="[data]\nsplits = ['val', 'train']")
    found = states(checked)
    assert (found["3.2"], found["3.7"]) == (State.DONE, State.OPEN)  # the data that were checked are as they were
    check_project(checked.folder, ["data"])
    found = states(checked)
    assert (found["3.2"], found["3.7"]) == (State.DONE, State.DONE)


@pytest.mark.parametrize(
    ("more", "stale"),
    [
        ("[data]\nsplit = 'test'", {"3.2", "3.3"}),
        ("[data]\nsplits = ['val', 'test']", {"3.2"}),
        ("[data]\nsplits = ['val', 'train']", set()),
        ("[data]\nsplits = ['train', 'test']", {"3.2", "3.3"}),
        ("[data]\nsplit = 'train'", set()),
    ],
)
def test_other_data_make_stale_what_looks_at_data(checked, more, stale):
    checked.write(more=more)
    assert {number for number, state in states(checked).items() if state is State.STALE} == stale


def test_other_data_make_all_stale_where_they_give_the_inputs(checked):
    settings = {"inputs.source": kept._digest("dataloader")}
    found = kept.Kept("forward", "aligned", "", "", ["val"], settings=settings, split="val")
    project = read(checked.folder).settings
    project.split = "test"
    assert kept.changed(found, settings, project) == ["setting data.split"]
    assert kept.changed(replace(found, settings={}), {}, project) == []
    assert kept.changed(replace(found, settings={}, split=""), {}, project) == ["setting data.split"]  # of an earlier version


def test_the_training_step_says_that_the_split_is_another(checked):
    assert one(checked, "3.7").why == '[data] names no training data: set splits = ["val", "train"]'


def test_a_stage_that_diverged_is_the_next_thing_to_do(checked):
    checked.edit("candidate", '@ self.parameters["weight"]', '@ self.parameters["weight"] * 1.01')
    check_project(checked.folder, ["forward"])
    found = status(checked.folder)
    first = found.steps[0]
    assert (first.state, found.code) == (State.DIVERGED, 1)
    assert first.why.startswith("forward: ")
    assert found.next is first


def test_a_side_that_fails_is_an_error_with_the_code_of_one(checked):
    checked.edit("candidate", "return Model()", "raise RuntimeError('no model')")
    check_project(checked.folder, ["metric"])
    found = one(checked, "3.3")
    assert (found.state, status(checked.folder).code) == (State.ERROR, 3)
    assert "the candidate failed: RuntimeError" in found.why


def test_what_is_edited_while_a_check_runs_makes_its_result_stale(checked):
    def edit(step):
        if step == "metric":
            path = checked.folder / "paralign.toml"
            path.write_text(path.read_text() + "[tolerance]\nratio = 20\n")
            checked.edit("candidate", "x / 2", "x * 0.5")

    check_project(checked.folder, ["metric"], progress=edit)
    (found,) = one(checked, "3.3").stages
    assert found.state is State.STALE
    assert found.changed[0] == "setting tolerance.ratio"
    assert [path.rpartition("/")[2] for path in found.changed[1:]] == ["candidate.py"]


def test_a_check_that_is_cut_short_leaves_no_verdict(checked):
    from paralign.run.project import read

    kept.invalidate(checked.folder / "result", ["forward"], read(checked.folder).settings)
    assert states(checked)["3.1"] is State.OPEN


def test_a_step_that_was_not_tested_says_what_is_missing(project):
    check_project(project.folder, ["loss"])
    each = one(project, "3.4")
    assert (each.state, each.why) == (State.NOT_TESTED, "loss: neither side has loss(outputs, labels)")


@pytest.mark.parametrize(
    ("name", "text", "told"),
    [
        ("forward_diff.log", "[2021/12/21 15:00:38] root INFO: diff check passed\n", "compares nothing"),
        (
            "loss_diff_log.txt",
            "[2021/12/21 15:00:38] root INFO: x:\n[2021/12/21 15:00:38] root INFO: \tmean diff: check passed: True, value: 0\n",
            "passed",
        ),
        ("loss_diff.log", "2021-09-28 01:07:44,832 - reprod_log.utils - INFO - diff check failed\n", "compares nothing"),
        ("losses_diff_log.txt", "[2021/12/21 15:00:38] root INFO: paralign: diverged\n", "failed"),
        ("metric_diff.log", "something else\n", ""),
    ],
)
def test_a_log_of_the_users_own_scripts_is_told_and_is_no_verdict(project, name, text, told):
    (project.folder / "result" / "log").mkdir(parents=True)
    (project.folder / "result" / "log" / name).write_text(text)
    said = {"forward": "3.1", "loss": "3.4", "losses": "3.6", "metric": "3.3"}[name.partition("_")[0]]
    each = one(project, said)
    assert each.state is State.OPEN
    found = [stage.log for stage in each.stages if stage.log]
    assert found == ([f"{name} {told}, but no check has run"] if told else [])


def test_the_next_command_names_the_output_folder(project, tmp_path):
    (tmp_path / "other place").mkdir()
    found = status(project.folder, out=tmp_path / "other place")
    assert found.next.command == f"paralign check {project.folder} --out '{tmp_path / 'other place'}' weights forward"


def test_steps_can_be_left_out(project):
    found = states(project, without=["3.12", "train", "log"])
    assert {number for number, state in found.items() if state is State.LEFT_OUT} == {"3.9", "3.10", "3.12"}
    with pytest.raises(UsageError, match=r"there is no step '3\.13'"):
        status(project.folder, without=["3.13"])


def test_the_most_pressing_state_decides():
    assert most_pressing([State.DONE, State.STALE, State.DIVERGED]) is State.DIVERGED
    assert most_pressing([State.DONE, State.OPEN]) is State.OPEN
    assert most_pressing([]) is State.LEFT_OUT


def test_values_of_settings_are_not_kept(project):
    project.write(candidate='env = {TOKEN = "s3cret-value"}')
    check_project(project.folder, ["weights"])
    assert "s3cret-value" not in (project.folder / "result" / "stages" / "weights.json").read_text()


@pytest.mark.parametrize(
    "damage",
    [
        lambda text: text[: len(text) // 2],
        lambda text: text.replace('"aligned"', '"perfect"'),
        lambda _: "[]",
        lambda text: json.dumps({**json.loads(text), "files": {"a": 1}}),
        lambda text: json.dumps({**json.loads(text), "surplus": 1}),
        lambda text: json.dumps({**json.loads(text), "schema": 99}),
    ],
)
def test_a_damaged_result_is_told_and_never_taken_for_done(checked, damage, capsys):
    path = checked.folder / "result" / "stages" / "metric.json"
    path.write_text(damage(path.read_text()))
    with pytest.raises(CaptureFormatError) as caught:
        status(checked.folder)
    assert caught.value.where == str(path)
    assert cli.main(["status", str(checked.folder)]) == 3
    assert "run the stage again" in capsys.readouterr().err


# -- the log of a training ---------------------------------------------------------------------------------------------------


def row(kind="TRAIN", **figures):
    return as_root(Row(kind, 0, 0 if kind == "TRAIN" else -1, {"loss": 0.5}, 32.0, 0.001, 0.01, 3200.0, **figures))


@pytest.mark.parametrize(
    ("lines", "lacking"),
    [
        ([row(), row("EVAL")], []),
        ([row()], ["results of an evaluation"]),
        (["epoch 0, iter 0, loss: 0.5"], ["reader_cost", "batch_cost", "ips", "results of an evaluation"]),
    ],
)
def test_a_training_log_is_judged_by_what_its_lines_tell(tmp_path, lines, lacking):
    (tmp_path / "output").mkdir()
    (tmp_path / "output" / "train.log").write_text("\n".join(lines) + "\n")
    assert look([tmp_path], without=[]).lacking == lacking
    assert look([tmp_path], without=[tmp_path / "output"]).path is None


def test_the_step_about_logs_is_done_with_a_complete_log(project):
    (project.folder / "train.log").write_text(row() + "\n" + row("EVAL") + "\n")
    each = one(project, "3.10")
    assert (each.state, each.why) == (State.DONE, "train.log: 1 training steps, 1 evaluations")
    (project.folder / "train.log").write_text(row() + "\n")
    assert one(project, "3.10").state is State.UNDERPOWERED


# -- the command -------------------------------------------------------------------------------------------------------------


def test_the_command_prints_a_line_a_step_and_the_next_command(checked, capsys):
    assert cli.main(["status", str(checked.folder)]) == 4
    out = capsys.readouterr().out
    assert "3.1   model structure                   done          1" in out
    assert "3 of 12 steps done, 3 of 6 checkpoints" in out
    assert out.rstrip().endswith(f"next: paralign check {checked.folder} loss")


def test_the_command_prints_json(checked, capsys):
    assert cli.main(["status", str(checked.folder), "--json"]) == 4
    told = json.loads(capsys.readouterr().out)
    assert [each["state"] for each in told["steps"][:4]] == ["done", "done", "done", "open"]
    assert told["checkpoints"][0] == {"number": 1, "step": "3.1", "state": "done"}
    assert told["next"] == {"step": "3.4", "command": f"paralign check {checked.folder} loss"}
    assert [stage["verdict"] for stage in told["steps"][0]["stages"]] == ["aligned", "aligned"]


def test_with_everything_else_left_out_a_done_port_exits_with_0(checked):
    others = [step.number for step in STEPS if step.number not in ("3.1", "3.2", "3.3")]
    assert cli.main(["status", str(checked.folder), *(word for n in others for word in ("--without", n))]) == 0
