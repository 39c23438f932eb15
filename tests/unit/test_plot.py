"""Charts of a result: what is drawn, what is said of what is not, what is refused."""

from __future__ import annotations

import json
import re
from pathlib import Path

import numpy as np
import pytest

from paralign import Side, check, cli
from paralign.cli import parser
from paralign.errors import UsageError
from paralign.report import charts
from paralign.report.told import names_of

PAGE = Path(__file__).parents[2] / "docs" / "plot.md"


def linear(by):
    return lambda x: x * by


@pytest.fixture(scope="module")
def result(tmp_path_factory):
    folder = tmp_path_factory.mktemp("checked") / "result"
    sides = [Side(framework="numpy", model=linear(by)) for by in (np.float32(2), np.float32(2.01))]
    found = check(*sides, inputs=np.linspace(-1, 1, 60, dtype="float32").reshape(3, 20), stages=["forward"], out=folder)
    assert found.verdict == "diverged"
    return folder


def drawn(path):
    assert path.read_bytes()[:8] == b"\x89PNG\r\n\x1a\n"
    return path.stat().st_size > 5000


def test_the_commands_of_the_page_are_right():
    commands = re.findall(r"^\| `paralign (plot[^`]*)`", PAGE.read_text(), re.MULTILINE)
    assert len(commands) == 5
    for command in commands:
        parser().parse_args([word.strip('"') for word in re.findall(r'"[^"]*"|\S+', command)])


def test_without_matplotlib_the_command_says_how_to_get_it(result, monkeypatch, capsys):
    monkeypatch.setattr(charts, "find_spec", lambda _: None)
    assert cli.main(["plot", str(result)]) == 2
    assert "pip install 'paralign[plot]'" in capsys.readouterr().err


def test_names_of_both_sides_are_looked_up_by_key(result):
    assert names_of(result, "output") == [("forward", ("output", "output"))]
    assert names_of(result, "anything else") == [("forward", ("anything else", "anything else"))]


def test_only_pictures_are_written_and_nothing_is_replaced(tmp_path):
    with pytest.raises(UsageError, match=r"a chart is a \.png or \.svg file"):
        charts.save(None, tmp_path / "chart.pdf")
    (tmp_path / "chart.png").write_text("mine")
    with pytest.raises(UsageError, match="there already"):
        charts.save(None, tmp_path / "chart.png")
    assert (tmp_path / "chart.png").read_text() == "mine"


class TestDrawn:
    @pytest.fixture(autouse=True)
    def _matplotlib(self):
        pytest.importorskip("matplotlib", reason="charts need matplotlib (the extra `plot`)")

    def test_errors_of_a_check(self, result, capsys):
        assert cli.main(["plot", str(result)]) == 0
        assert capsys.readouterr().out.strip() == str(result / "plots" / "errors.png")
        assert drawn(result / "plots" / "errors.png")
        assert cli.main(["plot", str(result), "--stage", "forwrad"]) == 2
        assert "did you mean 'forward'" in capsys.readouterr().err

    def test_what_an_axis_cannot_show_is_counted(self, result, tmp_path):
        report = json.loads((result / "report.json").read_text())
        (pair,) = report["stages"][0]["pairs"]
        report["stages"][0]["pairs"] = [{**pair, "error": error, "key": f"$x$\x1b {error}"} for error in (0.0, 1e-3, "inf", None)]
        (tmp_path / "report.json").write_text(json.dumps(report))
        target = tmp_path / "errors.svg"
        assert cli.main(["plot", str(tmp_path), "--out", str(target)]) == 0
        from paralign.report.told import read

        page = charts.errors(read(tmp_path).stages)
        (axes,) = page.axes
        assert axes.get_title() == "forward: diverged (1 equal, not drawn, 1 without a finite error, not drawn, 1 not measured)"
        assert "\x1b" not in "".join(label.get_text() for label in axes.get_xticklabels())
        assert axes.get_yscale() == "log"
        (error,) = [line for line in axes.lines if line.get_label() == "error"]
        assert list(error.get_ydata()) == [1e-3]

    def test_values_of_a_tensor(self, result, tmp_path, capsys):
        assert cli.main(["plot", str(result), "--tensor", "output", "--out", str(tmp_path / "t.png")]) == 0
        assert drawn(tmp_path / "t.png")
        assert cli.main(["plot", str(result), "--tensor", "../../etc", "--out", str(tmp_path / "u.png")]) == 2
        assert "no values of both sides are kept" in capsys.readouterr().err

    def test_histograms_say_what_they_lack(self):
        values = np.array([1.0, np.nan, np.inf, 2.0])
        page = charts.histograms("$x$", values, values)
        left, right = page.axes
        assert [text.get_text() for text in left.get_legend().get_texts()] == [
            "reference: 4 elements, 2 not finite",
            "candidate: 4 elements, 2 not finite",
        ]
        assert "2 of 4 elements equal" in right.get_title()
        page = charts.histograms("x", values, values[:2])
        assert page.axes[1].get_title() == "shapes differ: [4] and [2]"
        charts.histograms("empty", np.zeros(0), np.zeros(0, "complex64"))

    def test_losses_of_two_logs(self, tmp_path, capsys):
        logs = []
        for name, shift in (("reference", 0.0), ("candidate", 0.5)):
            logs.append(tmp_path / f"{name}.jsonl")
            logs[-1].write_text("".join(json.dumps({"epoch": 0, "batch": n, "loss": 2.0 / (n + 1) + shift}) + "\n" for n in range(20)))
        target = tmp_path / "curves.svg"
        assert cli.main(["plot", str(logs[0]), "--against", str(logs[1]), "--out", str(target)]) == 0
        assert target.read_text().startswith("<?xml")
        logs[1].write_text("nothing of a training\n")
        assert cli.main(["plot", str(logs[0]), "--against", str(logs[1]), "--out", str(tmp_path / "no.svg")]) == 4
        assert "there is nothing to draw" in capsys.readouterr().err

    @pytest.mark.parametrize(("count", "marks"), [(1, [0]), (2, [0, 1]), (100, [])])
    def test_a_curve_of_one_point_is_seen(self, count, marks):
        series = np.arange(count), np.ones(count)
        axes = charts.curves([charts.Curve("loss", series, series)]).axes[0]
        assert [line.get_markevery() for line in axes.lines] == [marks, marks]
        assert {line.get_marker() for line in axes.lines} == {"."}

    def test_one_loss_of_two_logs_is_drawn(self, tmp_path):
        sizes = []
        for value in (0.25, float("nan")):
            series = np.zeros(1), np.array([value])
            charts.save(charts.curves([charts.Curve("loss", series, series)]), tmp_path / f"{value}.png")
            sizes.append(ink(tmp_path / f"{value}.png"))
        assert sizes[0] > sizes[1]

    @pytest.mark.parametrize("steps", [1, 3])
    def test_a_schedule_of_one_point_is_seen(self, tmp_path, steps):
        from paralign.report import plots

        shown = []
        for value in (0.1, np.nan):
            rates = np.full((steps, 1), value)
            rates[1:] = np.nan
            assert plots.schedule(tmp_path, rates, rates)
            shown.append(ink(tmp_path / "schedule.png"))
        assert shown[0] > shown[1]


def ink(path):
    """Coloured pixels: those of curves, in the axes and in the legend."""
    from matplotlib.image import imread

    picture = imread(path)[..., :3]
    return int((np.ptp(picture, axis=2) > 0.3).sum())
