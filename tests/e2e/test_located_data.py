"""The first wrong line of a sample, through the command: its place and code in report.json and on the terminal."""

from __future__ import annotations

import pytest

READ = 'image = np.arange(6, dtype="float32") + index'


def line_of(project, text):
    path = project.folder / "candidate.py"
    return f"{path}:{next(n for n, line in enumerate(path.read_text().splitlines(), 1) if text in line)}"


@pytest.mark.parametrize(
    ("old", "new", "line", "rule"),
    [
        ("return x / 2", "return x / 3", "return x / 3", "data/scale"),
        (READ, READ + " + np.random.rand()", "np.random.rand()", "data/random"),
        ("index % 3", "index % 3 + 1", "index % 3 + 1", "data/label-shift"),
        ("np.stack([x for x, _ in rows])", "np.stack([x for x, _ in rows][::-1])", None, "data/batch-parts"),
    ],
)
def test_the_line_and_the_cause_are_reported(project, old, new, line, rule):
    project.edit("candidate", old, new)
    done = project.check("data")
    assert done.code == 1, done.err
    stage = project.stage("data")
    assert [f["rule"] for f in stage["findings"]] == [rule]
    if line is not None:
        end = stage["divergence"]["candidate"]
        assert end["source"] == line_of(project, line)
        assert line in end["code"]
        assert end["code"] in done.out
        assert stage["divergence"]["reference"]["source"].startswith(str(project.folder / "reference.py"))
    assert stage["findings"][0]["cause"].split(":")[0] in " ".join(done.out.split())
    assert "fix: " in done.out
