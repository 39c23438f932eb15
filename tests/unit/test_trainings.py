"""The keys of ``[training]`` that the stage ``train`` reads: right ones, and wrong ones with a line that names them."""

from __future__ import annotations

import pytest

from paralign.errors import UsageError
from paralign.run.project import read
from paralign.run.trainings import Trainings


def project(folder, text):
    for name in ("reference.py", "candidate.py"):
        (folder / name).write_text("def train(log): pass\n")
    (folder / "paralign.toml").write_text(f'[reference]\nframework = "numpy"\n[candidate]\nframework = "numpy"\n[training]\n{text}\n')
    return read(folder).settings.training


def test_what_is_not_said_has_its_default(tmp_path):
    assert project(tmp_path, "") == Trainings()


def test_keys_are_read_and_logs_found_beside_the_project_file(tmp_path):
    for name in ("a.log", "b.log", "c.log"):
        (tmp_path / name).write_text("")
    text = 'runs = 5\nmargin = 0.0015\nmargin_in = "units"\none_sided = true\nbetter = "lower"\nmetric = "mse"\ncross = "never"\nseconds = 9.5\n'
    found = project(tmp_path, text + 'exact_steps = 7\nreference_log = ["a.log", "b.log"]\ncandidate_log = "c.log"')
    logs = ([tmp_path / "a.log", tmp_path / "b.log"], [tmp_path / "c.log"])
    assert found == Trainings(5, 7, 9.5, "mse", "lower", 0.0015, "units", one_sided=True, cross="never", logs=logs)


WRONG = {
    "runs = -1": "'runs' must be at least 0",
    "margin = -0.1": "'margin' must be at least 0",
    "margin = inf": "'margin' must be at least 0",
    "seconds = 0": "'seconds' must be above 0",
    'better = "more"': "'more' is not a choice",
    'margin_in = "percent"': "'percent' is not a choice",
    "one_sided = 1": "'one_sided' must be of type bool, not int",
    "runs = true": "'runs' must be of type int, not bool",
    'reference_log = "none.log"\ncandidate_log = "none.log"': "the log is not there",
    "reference_log = [3]": "reference_log must be the name of a file, or a list of names",
    'reference_log = "candidate.py"': "logs of one side alone cannot be compared",
    "run = 3": "unknown key 'run'; did you mean 'runs'?",
}


@pytest.mark.parametrize("text", WRONG)
def test_what_cannot_work_is_refused_with_its_place(text, tmp_path):
    with pytest.raises(UsageError) as caught:
        project(tmp_path, text)
    assert WRONG[text] in str(caught.value)
    assert "[training]" in str(caught.value) or "none.log" in str(caught.value)
