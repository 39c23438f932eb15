"""A check as a test."""

import sys
from pathlib import Path

import numpy as np
import pytest

from paralign import Side
from paralign.errors import UsageError
from paralign.testing import NotAligned, assert_aligned

pytest_plugins = ["pytester"]

X = np.random.default_rng(0).standard_normal((4, 3))


def side(act, framework="numpy"):
    return Side(framework=framework, model=act)


def test_a_right_port_passes_and_gives_the_result():
    result = assert_aligned(side(lambda x: 2 * x), side(lambda x: x + x), inputs=X, stages=["forward"])
    assert result["forward"].verdict == "aligned"


def test_a_wrong_port_fails_with_the_cause_first():
    with pytest.raises(NotAligned) as failed:
        assert_aligned(side(lambda x: 2 * x), side(lambda x: 3 * x), inputs=X, stages=["forward"])
    assert str(failed.value).startswith("forward: ")
    assert failed.value.result["forward"].verdict == "diverged"


def test_what_shows_nothing_fails_unless_it_is_allowed():
    sides = side(lambda x: x * np.nan), side(lambda x: x * np.nan)
    with pytest.raises(NotAligned, match="underpowered"):
        assert_aligned(*sides, inputs=X, stages=["forward"])
    assert assert_aligned(*sides, inputs=X, stages=["forward"], allow=("underpowered",))


def test_no_difference_can_be_allowed():
    with pytest.raises(UsageError, match="would let a difference pass"):
        assert_aligned(side(abs), side(abs), inputs=X, allow=("diverged",))


@pytest.mark.parametrize("given", [(3,), (side(abs),), ("folder", side(abs))])
def test_other_arguments_are_told(given):
    with pytest.raises(UsageError, match="two Sides, or the folder"):
        assert_aligned(*given)


def test_a_project_is_checked_by_its_folder(tmp_path):
    for name, factor in (("reference", 2), ("candidate", 3)):
        (tmp_path / f"{name}.py").write_text(f"def build_model():\n    return lambda x: {factor} * x\n")
    toml = '[{0}]\nframework = "numpy"\nmodule = "{0}.py"\n'
    (tmp_path / "paralign.toml").write_text(toml.format("reference") + toml.format("candidate") + "[inputs]\nshape = [2, 3]\n")
    with pytest.raises(NotAligned, match="forward"):
        assert_aligned(tmp_path, stages=["forward"])
    assert (tmp_path / "result" / "report.html").exists()


TESTS = """
import numpy as np
import pytest
from paralign import Side

@pytest.mark.parametrize("factor", [2, 3])
def test_port(assert_aligned, factor):
    first, second = Side(framework="numpy", model=lambda x: 2 * x), Side(framework="numpy", model=lambda x: factor * x)
    assert_aligned(first, second, inputs=np.arange(6.0).reshape(2, 3) / 7, stages=["forward"])
"""


@pytest.mark.parametrize("workers", [[], ["-n", "2"]])
def test_the_plugin_keeps_the_reports_of_tests(pytester, monkeypatch, workers):
    import paralign

    monkeypatch.setenv("PYTHONPATH", str(Path(paralign.__file__).parents[1]))
    pytester.makepyfile(TESTS)
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", "--paralign-out", "kept", *workers]
    loaded = [] if installed() else ["-p", "paralign.testing.plugin"]
    done = pytester.run(*command, *loaded, timeout=120)
    done.assert_outcomes(passed=1, failed=1)
    done.stdout.fnmatch_lines(["*NotAligned: forward: *"])
    folders = sorted(path.parent.name for path in (pytester.path / "kept").glob("*/report.html"))
    assert len(folders) == 2
    assert all("test_port-" in name for name in folders)


def installed():
    """Whether the package's metadata, and so its entry points, are there and of this version."""
    from importlib.metadata import entry_points

    return any(entry.value == "paralign.testing.plugin" for entry in entry_points(group="pytest11"))


@pytest.mark.parametrize("page", ["ci.md", "ci.zh.md"])
def test_the_example_of_the_page_passes(pytester, monkeypatch, page):
    import paralign

    text = (Path(__file__).parents[2] / "docs" / page).read_text(encoding="utf-8")
    monkeypatch.setenv("PYTHONPATH", str(Path(paralign.__file__).parents[1]))
    pytester.makepyfile(text.partition("```python\n")[2].partition("```")[0])
    loaded = [] if installed() else ["-p", "paralign.testing.plugin"]
    pytester.run(sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *loaded, timeout=120).assert_outcomes(passed=1)


MISSING = """
from paralign.testing import assert_aligned as act

def test_fixture(assert_aligned):
    assert_aligned("no-such-folder")

def test_function():
    act("no-such-folder")
"""


def test_a_missing_folder_fails_with_its_cause_and_without_frames_of_ours(pytester, monkeypatch):
    monkeypatch.setenv("PYTHONPATH", str(Path(__file__).parents[2] / "src"))
    pytester.makepyfile(MISSING)
    loaded = [] if installed() else ["-p", "paralign.testing.plugin"]
    done = pytester.run(sys.executable, "-m", "pytest", "-p", "no:cacheprovider", *loaded, timeout=120)
    done.assert_outcomes(failed=2)
    text = done.stdout.str()
    assert "paralign could not check: there is no paralign.toml" in text
    assert text.count("where: no-such-folder") >= 2
    assert "fix:   run `paralign init DIR`" in text
    assert "src/paralign/" not in text
    assert "site-packages/paralign" not in text
