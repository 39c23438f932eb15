"""The page of a real check: the operations of both models, matched by what they computed; pictures of what differs."""

from __future__ import annotations

import json

import pytest

from paralign import cli

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

pytest.importorskip("torch")
pytest.importorskip("paddle")


@pytest.fixture(scope="module")
def port(tmp_path_factory):
    folder = tmp_path_factory.mktemp("page") / "port"
    assert cli.main(["init", str(folder)]) == 0
    source = (folder / "candidate.py").read_text()
    assert "exclusive=False" in source
    (folder / "candidate.py").write_text(source.replace(", exclusive=False", ""))
    assert cli.main(["check", str(folder), "weights", "forward", "loss", "backward", "-q"]) == 1
    return folder


def test_operations_are_told_with_their_counterparts(port):
    told = json.loads((port / "result" / "figures.json").read_text())["operations"]
    rows = {side: {row[0] + " " + row[2]: row for row in told[side]} for side in told}
    pool = rows["candidate"]["3 pool2d"]
    assert pool[5] == "unmatched"
    right = rows["candidate"]["2 relu"]
    assert right[5] == "right"
    assert told["reference"][right[6]][2] == "aten.relu.default"
    assert rows["candidate"]["0 conv2d"][5] == "own way"  # the bias is added by an operation of its own
    assert rows["reference"]["3 aten.avg_pool2d.default"][5] == "unmatched"


def test_what_differs_most_is_drawn(port):
    stages = json.loads((port / "result" / "figures.json").read_text())["stages"]
    assert stages["forward"]["tensors"][0]["key"] == "output"
    assert stages["forward"]["tensors"][0]["most"] > 0
    curves = {curve["name"]: curve for curve in stages["backward"]["curves"]}
    assert curves["loss float64:eval"]["reference"] != curves["loss float64:eval"]["candidate"]


def test_the_page_is_made_again_without_the_captures(port, tmp_path, capsys):
    moved = tmp_path / "result"
    moved.mkdir()
    for name in ("report.json", "figures.json"):
        (moved / name).write_bytes((port / "result" / name).read_bytes())
    assert cli.main(["report", str(moved)]) == 0
    page = (moved / "report.html").read_text()
    assert 'class="operations"' in page
    assert 'class="drawings"' in page
    capsys.readouterr()
