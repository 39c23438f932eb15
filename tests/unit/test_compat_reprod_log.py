"""The replacement of reprod_log: the same files, figures and lines as the package; safe where the package is not."""

import datetime as dt
import logging
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import paralign
from paralign.compat.reprod_log import ReprodDiffHelper, ReprodLogger, report_lines
from paralign.errors import CaptureFormatError, UnsafeFile, UnsupportedTensor, UsageError

PUBLISHED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "reprod_log"
NOW = dt.datetime(2024, 1, 31, 12, 0, 5)  # noqa: DTZ001 - the log bears local time without a zone
STAMP = "[2024/01/31 12:00:05] root INFO: "
RANDOM = np.random.default_rng(0)


def messages(text):
    """The lines of a log without their time; every line must have one."""
    found = [re.fullmatch(r"\[\d{4}/\d\d/\d\d \d\d:\d\d:\d\d\] root INFO: (.*)", line) for line in text.splitlines()]
    assert None not in found
    return [line.group(1) for line in found]


def arrays(*shapes):
    return {f"key_{number}": RANDOM.standard_normal(shape).astype(np.float32) for number, shape in enumerate(shapes)}


def near(value, scale=1e-6):
    if isinstance(value, dict):
        return {key: near(item, scale) for key, item in value.items()}
    return np.asarray(value + np.asarray(scale * RANDOM.standard_normal(value.shape), value.dtype))


NESTED = {"loss": np.array(1.0), "grad": {"conv": {"weight": np.ones((2, 3)), "bias": np.zeros(2)}, "fc": np.ones(4)}, 3: np.arange(3.0)}
CASES = {
    "passing": (arrays((2, 3), (4,)), None),
    "failing": (arrays((2, 3), (4,)), 1e-3),
    "close": (arrays((200, 3), (4,), (1,)), 1e-6),
    "nested": (NESTED, 1e-6),
    "nested, passing": (NESTED, None),
    "double": ({"lr": np.array([0.1]), "x": np.linspace(0, 1, 7)}, 1e-7),
    "half": ({"x": np.arange(5, dtype=np.float16)}, 1e-1),
    "integers": ({"n": np.array(5000), "l": np.arange(4)}, 1.0),
    "complex": ({"z": np.array([1 + 2j])}, 1e-3),
}
CASES = {name: (reference, near(reference, scale) if scale else reference) for name, (reference, scale) in CASES.items()}
CASES.update(
    {
        "a scalar against one element": ({"l": np.array(1.5)}, {"l": np.array([1.5 + 1e-5])}),
        "transposed": ({"w": np.arange(6.0).reshape(2, 3)}, {"w": np.arange(6.0).reshape(2, 3).T}),
        "transposed inside": ({"a": {"w": np.arange(24.0).reshape(2, 3, 4)}}, {"a": {"w": np.zeros((4, 3, 2))}}),
        "broadcast": ({"w": np.arange(6.0).reshape(2, 3)}, {"w": np.arange(3.0)}),
        "another type": ({"w": np.ones(3, np.float32)}, {"w": np.ones(3)}),
        "names of figures": (
            {"mean": np.ones(2), "x": {"mean": np.ones(2), "max": np.zeros(1)}},
            {"mean": np.ones(2), "x": {"mean": np.zeros(2), "max": np.zeros(1)}},
        ),
    }
)
METHODS = ["mean", "min", "max", "all", ["min", "max"], ["max", "mean"], ("mean",)]


@pytest.fixture
def root_logger():
    """Puts the root logger back as it was: the package adds handlers to it and leaves them there."""
    logger = logging.getLogger("root")
    handlers, level = list(logger.handlers), logger.level
    yield logger
    for handler in [handler for handler in logger.handlers if handler not in handlers]:
        logger.removeHandler(handler)
        if isinstance(handler, logging.FileHandler):
            handler.close()
    logger.setLevel(level)


@pytest.fixture
def package(root_logger):
    del root_logger
    return pytest.importorskip("reprod_log")


@pytest.mark.paddle
@pytest.mark.parametrize("method", METHODS, ids=str)
@pytest.mark.parametrize("case", sorted(CASES))
def test_screen_and_file_are_those_of_the_package(tmp_path, capsys, package, case, method):
    reference, candidate = CASES[case]
    seen = []
    for helper, folder in ((package.ReprodDiffHelper(), tmp_path / "theirs" / "log"), (ReprodDiffHelper(), tmp_path / "ours" / "log")):
        helper.compare_info(reference, candidate)
        printed = capsys.readouterr().out
        result = helper.report(diff_method=method, diff_threshold=1e-5, path=str(folder / "diff.log"))
        text = (folder / "diff.log").read_text()
        assert capsys.readouterr().out == text
        seen.append((printed, result, messages(text), repr(helper.diff_dict)))
    assert seen[0] == seen[1]
    lines, passed = report_lines(reference, candidate, method=method, threshold=1e-5, now=NOW)
    assert lines == [STAMP + line for line in seen[0][2]]
    assert passed == (lines[-1] == STAMP + "diff check passed")
    assert capsys.readouterr().out == ""


@pytest.mark.paddle
def test_the_cases_pass_and_fail(package):
    """Without this, all cases could be of one kind."""
    del package
    verdicts = {report_lines(*CASES[case], threshold=1e-5)[1] for case in CASES}
    assert verdicts == {True, False}


@pytest.mark.paddle
def test_defaults_are_those_of_the_package(tmp_path, monkeypatch, capsys, package):
    del capsys  # keeps the reports off the screen
    texts = []
    for number, helper in enumerate((package.ReprodDiffHelper(), ReprodDiffHelper())):
        (tmp_path / str(number)).mkdir()
        monkeypatch.chdir(tmp_path / str(number))
        helper.compare_info({"a": np.float64([0, 0])}, {"a": np.float64([1.5e-6, 0.25e-6])})
        helper.report()
        texts.append(messages(Path("diff.txt").read_text()))
    assert texts[0] == texts[1] == ["a: ", "\tmean diff: check passed: True, value: 8.75e-07", "diff check passed"]


@pytest.mark.paddle
def test_files_are_read_both_ways(tmp_path, package):
    writers = {"theirs": package.ReprodLogger(), "ours": ReprodLogger()}
    for name, logger in writers.items():
        for key, value in {**CASES["failing"][0], "lr": np.array(0.1), "t": np.arange(6).reshape(2, 3).T}.items():
            logger.add(key, value)
        logger.save(str(tmp_path / "deep" / "er" / name))
    loaded = [
        helper.load_info(str(tmp_path / "deep" / "er" / f"{name}.npy"))
        for helper in (package.ReprodDiffHelper(), ReprodDiffHelper())
        for name in writers
    ]
    for content in loaded:
        assert list(content) == list(writers["ours"].data)
        for key, value in content.items():
            np.testing.assert_array_equal(value, writers["ours"].data[key])
            assert value.dtype == writers["ours"].data[key].dtype
            assert value.flags.writeable
    assert sorted(path.name for path in (tmp_path / "deep" / "er").iterdir()) == ["ours.npy", "theirs.npy"]


ONE = {"a": np.ones(2)}
FAILURES = [
    (AssertionError, lambda logger, _: logger.add("a", [1])),
    (AssertionError, lambda logger, _: logger.add("a", 1.0)),
    (AssertionError, lambda logger, _: logger.add("a", np.float32(1))),
    (AssertionError, lambda _, helper: helper.load_info("missing.npy")),
    (AssertionError, lambda _, helper: helper.compare_info([1], ONE)),
    (AssertionError, lambda _, helper: helper.compare_info(ONE, None)),
    (AssertionError, lambda _, helper: helper.compare_info(ONE, {})),
    (AssertionError, lambda _, helper: helper.compare_info({}, ONE)),
    (AssertionError, lambda _, helper: helper.compare_info({"n": {"a": np.ones(1)}}, {"n": {}})),
    (AssertionError, lambda _, helper: helper.compare_info(ONE, {"a": {"b": np.ones(2)}})),
    (AssertionError, lambda _, helper: helper.report(diff_method="median", path=None)),
    (AssertionError, lambda _, helper: helper.report(diff_method=["mean", "median"], path=None)),
    (NotImplementedError, lambda _, helper: helper.compare_info({"a": 1.0}, {"a": 1.0})),
    (NotImplementedError, lambda _, helper: helper.compare_info({"a": [np.ones(1)]}, {"a": [np.ones(1)]})),
    (ValueError, lambda _, helper: helper.compare_info(ONE, {"a": np.ones(3)})),
    (ValueError, lambda _, helper: helper.compare_info({"a": np.ones((0, 2))}, {"a": np.ones((0, 2))})),
    (TypeError, lambda _, helper: helper.compare_info({"a": np.ones(1, bool)}, {"a": np.ones(1, bool)})),
    (KeyError, lambda _, helper: helper.report(diff_method=["all"], path=None)),
    (AttributeError, lambda _, helper: type(helper)().report(path=None)),
]


@pytest.mark.paddle
@pytest.mark.filterwarnings("ignore:Mean of empty slice", "ignore:invalid value encountered")  # from the package
@pytest.mark.parametrize("number", range(len(FAILURES)))
def test_failures_are_of_the_same_class(package, number):
    error, call = FAILURES[number]
    for logger, helper in ((package.ReprodLogger(), package.ReprodDiffHelper()), (ReprodLogger(), ReprodDiffHelper())):
        helper.compare_info(ONE, ONE)
        with pytest.raises(error):
            call(logger, helper)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (lambda: ReprodLogger().add("a", [1]), AssertionError, "'a' is a list, it must be a numpy array"),
        (lambda: ReprodDiffHelper().load_info("missing.npy"), AssertionError, "there is no file 'missing.npy'"),
        (lambda: report_lines({"a": {"b": np.ones(1)}}, {"a": {}}), AssertionError, "a.b is found on one side only"),
        (lambda: report_lines({}, ONE), AssertionError, "a is found on one side only"),
        (lambda: report_lines(ONE, {"a": {}}), AssertionError, "'a' is a ndarray on one side and a dict on the other"),
        (lambda: report_lines({"a": {"b": 1}}, {"a": {"b": 1}}), NotImplementedError, "'a.b' is a int; arrays and dicts of arrays"),
        (lambda: report_lines(ONE, {"a": np.ones(3)}), ValueError, "'a': shapes (2,) and (3,) cannot be compared"),
        (lambda: report_lines({"a": np.ones(0)}, {"a": np.ones(0)}), ValueError, "'a' has no elements to compare"),
        (lambda: report_lines({"a": np.ones(1, bool)}, {"a": np.ones(1, bool)}), TypeError, "'a': elements of bool and bool"),
        (lambda: report_lines(ONE, ONE, method="median"), AssertionError, "no method 'median'; choose from all, min, max, mean"),
    ],
)
def test_failures_say_what_is_wrong(call, error, message):
    with pytest.raises(error) as caught:
        call()
    assert message in str(caught.value)


def test_lines_are_exact():
    reference = {"loss": np.array(1.0), "grad": {"w": np.array([1.0, 2.0])}}
    candidate = {"loss": np.array(1.0), "grad": {"w": np.array([1.0, 2.5])}}
    lines, passed = report_lines(reference, candidate, method="all", now=NOW)
    assert not passed
    assert lines == [
        "[2024/01/31 12:00:05] root INFO: loss: ",
        "[2024/01/31 12:00:05] root INFO: \tmin diff: check passed: True, value: 0.0",
        "[2024/01/31 12:00:05] root INFO: \tmax diff: check passed: True, value: 0.0",
        "[2024/01/31 12:00:05] root INFO: \tmean diff: check passed: True, value: 0.0",
        "[2024/01/31 12:00:05] root INFO: grad",
        "[2024/01/31 12:00:05] root INFO: \tw: ",
        "[2024/01/31 12:00:05] root INFO: \t\tmin diff: check passed: True, value: 0.0",
        "[2024/01/31 12:00:05] root INFO: \t\tmax diff: check passed: False, value: 0.5",
        "[2024/01/31 12:00:05] root INFO: \t\tmean diff: check passed: False, value: 0.25",
        "[2024/01/31 12:00:05] root INFO: diff check failed",
    ]
    assert report_lines(reference, candidate, threshold=0.25, now=NOW)[1]
    assert report_lines(reference, candidate, method="min", now=NOW)[0][-1] == STAMP + "diff check passed"


def test_lines_bear_the_present_local_time_unless_told():
    before = dt.datetime.now().replace(microsecond=0)  # noqa: DTZ005 - the log bears local time without a zone
    (first, *_), _ = report_lines(ONE, ONE)
    assert before <= dt.datetime.strptime(first[1:20], "%Y/%m/%d %H:%M:%S") <= dt.datetime.now()  # noqa: DTZ005, DTZ007 - as above


def test_what_is_not_a_number_never_passes():
    for reference, candidate in [([np.nan], [1.0]), ([np.nan], [np.nan]), ([np.inf], [np.inf]), ([1.0], [np.nan])]:
        lines, passed = report_lines({"a": np.array(reference)}, {"a": np.array(candidate)}, now=NOW)
        assert lines[1:] == [STAMP + "\tmean diff: check passed: False, value: nan", STAMP + "diff check failed"]
        assert not passed


def test_a_report_about_nothing_does_not_pass():
    for nothing in ({}, {"a": {}}, {"a": {"b": {}}}):
        lines, passed = report_lines(nothing, nothing, now=NOW)
        assert lines[-1] == STAMP + "diff check failed"
        assert not passed
    assert not report_lines(ONE, ONE, method=[])[1]


def test_dicts_whose_names_are_those_of_figures_are_compared():
    figures = {"x": {"mean": np.ones(2), "max": np.ones(2), "min": np.ones(2)}}
    lines, passed = report_lines(figures, figures, now=NOW)
    assert passed
    assert [line[len(STAMP) :] for line in lines[:3]] == ["x", "\tmean: ", "\t\tmean diff: check passed: True, value: 0.0"]


def test_each_report_has_its_own_file_and_is_shown_once(tmp_path, capsys, root_logger):
    handlers, level = list(root_logger.handlers), root_logger.level
    texts = []
    for value in (1.0, 2.0):
        helper = ReprodDiffHelper()
        helper.compare_info({"a": np.zeros(1)}, {"a": np.array([value])})
        helper.report(path=tmp_path / str(value) / "diff.log")
        texts.append(capsys.readouterr().out)
    for value, text in zip((1.0, 2.0), texts):  # noqa: B905 - strict= is not in Python 3.8, where this runs too
        assert messages(text) == ["a: ", f"\tmean diff: check passed: False, value: {value}", "diff check failed"]
        assert (tmp_path / str(value) / "diff.log").read_text() == text
    assert (root_logger.handlers, root_logger.level) == (handlers, level)


@pytest.mark.paddle
def test_the_package_writes_a_second_report_into_the_first_file_too(tmp_path, capsys, package):
    """What ours does not do; should the package cease to do it, the docstring of the module is out of date."""
    helper = package.ReprodDiffHelper()
    helper.compare_info(ONE, ONE)
    helper.report(path=str(tmp_path / "one"))
    helper.report(path=str(tmp_path / "two"))
    assert len(messages((tmp_path / "one").read_text())) == 2 * len(messages((tmp_path / "two").read_text()))
    assert capsys.readouterr().out


def test_a_report_replaces_an_older_one_and_needs_no_file(tmp_path, capsys):
    (tmp_path / "diff.log").write_text("older\n" * 100)
    helper = ReprodDiffHelper()
    helper.compare_info({"\u635f\u5931": np.ones(1)}, {"\u635f\u5931": np.ones(1)})
    helper.report(path=str(tmp_path / "diff.log"))
    assert messages((tmp_path / "diff.log").read_text(encoding="utf-8"))[0] == "\u635f\u5931: "
    helper.report(path=None)
    assert capsys.readouterr().out.count("diff check passed") == 2
    assert [path.name for path in tmp_path.iterdir()] == ["diff.log"]


def test_the_logger_keeps_forgets_and_saves(tmp_path, capsys, monkeypatch):
    logger = ReprodLogger()
    array = np.ones(2)
    logger.add("a", array)
    logger.add("b", np.zeros(1))
    assert logger.data["a"] is array
    logger.remove("b")
    logger.remove("b")
    assert capsys.readouterr().out == "b is not in dict_keys(['a'])\n"
    monkeypatch.chdir(tmp_path)
    logger.save("plain")
    logger.save(Path("folder") / "a.npy")
    assert list(ReprodDiffHelper().load_info("plain.npy")) == ["a"]
    assert list(ReprodDiffHelper().load_info(Path("folder") / "a.npy")) == ["a"]
    data = logger.data
    logger.clear()
    assert logger.data is data
    assert data == {}


def test_plain_arrays_load_as_lists_as_in_the_package(tmp_path):
    np.save(tmp_path / "a.npy", np.arange(3))
    assert ReprodDiffHelper().load_info(str(tmp_path / "a.npy")) == [0, 1, 2]


class Hostile:
    def __reduce__(self):
        return os.system, ("exit 1",)


def test_loading_runs_nothing(tmp_path):
    np.save(tmp_path / "a.npy", {"a": Hostile()})
    with pytest.raises(UnsafeFile, match=r"refers to posix\.system, which is refused; nothing of it was run"):
        ReprodDiffHelper().load_info(str(tmp_path / "a.npy"))
    (tmp_path / "b.npy").write_bytes(pickle.dumps({"a": 1}))
    with pytest.raises(CaptureFormatError):
        ReprodDiffHelper().load_info(tmp_path / "b.npy")


def test_what_cannot_be_saved_is_named(tmp_path):
    logger = ReprodLogger()
    logger.data["a"] = Hostile()
    with pytest.raises(UnsupportedTensor, match="'a' is a Hostile"):
        logger.save(str(tmp_path / "a.npy"))
    logger.clear()
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="cannot be written"):
        logger.save(str(tmp_path / "file" / "a.npy"))


def published(tmp_path, stem, threshold):
    """The messages of our report about two published files."""
    helper = ReprodDiffHelper()
    helper.compare_info(*(helper.load_info(str(PUBLISHED / f"{stem}_{side}.npy")) for side in ("ref", "paddle")))
    helper.report(path=str(tmp_path / "diff.log"), diff_threshold=threshold)
    return messages((tmp_path / "diff.log").read_text())


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files are not here")
def test_published_losses_give_the_published_log(tmp_path, capsys):
    assert published(tmp_path, "losses", 1e-6) == messages((PUBLISHED / "backward_diff.log").read_text())
    assert capsys.readouterr().out == (tmp_path / "diff.log").read_text()


@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files are not here")
def test_published_outputs_give_the_published_figure(tmp_path, capsys):
    """The figure is the one that the guide prints for these arrays; the log beside them is of another, later run."""
    assert published(tmp_path, "forward", 1e-6) == [
        "logits: ",
        "\tmean diff: check passed: False, value: 2.308018565599923e-06",
        "diff check failed",
    ]
    log = messages((PUBLISHED / "forward_diff.log").read_text())
    assert log == ["logits: ", "\tmean diff: check passed: True, value: 1.7629824924370041e-06", "diff check passed"]
    del capsys


@pytest.mark.paddle
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="the published files are not here")
@pytest.mark.filterwarnings("ignore")  # numpy, about the age of the files
def test_the_package_gives_the_same_figures_for_the_published_files(tmp_path, capsys, package):
    for stem in ("forward", "losses"):
        helper = package.ReprodDiffHelper()
        helper.compare_info(*(helper.load_info(str(PUBLISHED / f"{stem}_{side}.npy")) for side in ("ref", "paddle")))
        helper.report(path=str(tmp_path / f"{stem}.log"), diff_threshold=1e-6)
        assert messages((tmp_path / f"{stem}.log").read_text()) == published(tmp_path, stem, 1e-6)
    del capsys


def test_no_framework_is_imported():
    program = (
        "import sys, paralign.compat.reprod_log; "
        "print(sorted({name.split('.')[0] for name in sys.modules} & {'paddle', 'torch', 'reprod_log', 'pickle'}))"
    )
    environment = {**os.environ, "PYTHONPATH": str(Path(paralign.__file__).parents[1])}
    frameworks = [
        subprocess.run([sys.executable, "-c", start + program], stdout=subprocess.PIPE, check=True, env=environment).stdout
        for start in ("", "sys = __import__('sys'); sys.modules['torch'] = sys; ")
    ]
    assert b"paddle" not in frameworks[0]
    assert b"torch" not in frameworks[0]
    assert b"torch" in frameworks[1]  # the check can fail
