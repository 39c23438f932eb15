"""`paralign compare` and the arguments of `paralign` as a user types them."""

from __future__ import annotations

import json

import numpy as np
import pytest

from paralign import cli
from paralign.capture import CaptureWriter, save_foreign
from paralign.model import Manifest

X = np.linspace(1, 2, 20).astype(np.float32)


@pytest.fixture
def pair(tmp_path):
    """Two files of arrays; gives their paths."""

    def write(reference, candidate, names=("ref.npy", "port.npy")):
        for name, value in zip(names, (reference, candidate), strict=True):
            save_foreign(tmp_path / name, value)
        return [tmp_path / name for name in names]

    return write


def test_equal_files(run, pair):
    done = run("compare", *pair({"logits": X}, {"logits": X}))
    assert (done.code, done.err) == (0, "")
    assert "verdict: aligned" in done.out
    assert "logits  aligned" in done.out
    assert "0/20" in done.out


@pytest.mark.parametrize(("factor", "code", "verdict"), [(1.1, 1, "diverged"), (1.0005, 4, "underpowered"), (1 + 1e-6, 0, "aligned")])
def test_exit_codes_follow_the_verdict(run, pair, factor, code, verdict):
    done = run("compare", *pair({"logits": X}, {"logits": X * np.float32(factor)}))
    assert done.code == code
    assert f"verdict: {verdict}" in done.out


def test_tolerances_are_taken(run, pair):
    paths = pair({"logits": X}, {"logits": X * np.float32(1.0005)})
    assert run("compare", *paths, "--atol", "0.01").code == 0
    assert run("compare", *paths, "--rtol", "1e-5").code == 1
    assert run("compare", *paths, "--ratio", "1e6").code == 0


@pytest.mark.parametrize("value", ["-1", "nan", "much"])
def test_an_impossible_tolerance_is_wrong_usage(run, pair, value):
    done = run("compare", *pair({"x": X}, {"x": X}), f"--atol={value}")
    assert done.code == 2
    assert "is no number from 0 on" in done.err


def test_json_has_every_pair_and_nan_as_a_word(run, pair):
    spoilt = X.copy()
    spoilt[3] = np.nan
    done = run("compare", *pair({"a": X, "b": X}, {"a": spoilt, "b": X}), "--json")
    report = json.loads(done.out)
    assert (done.code, report["schema"], report["verdict"]) == (1, 1, "diverged")
    (stage,) = report["stages"]
    assert [p["verdict"] for p in stage["pairs"]] == ["diverged", "aligned"]
    assert (stage["error"], stage["ratio"], stage["worst"]) == ("inf", "inf", "a")
    assert stage["divergence"]["pair"] == "a"
    assert stage["pairs"][0]["notes"] == ["NaN at 1 place of the candidate only"]


class Payload:
    def __init__(self, path):
        self.path = str(path)

    def __reduce__(self):
        import builtins

        return builtins.exec, (f"open({self.path!r}, 'w').close()",)


def test_a_malicious_pickle_is_refused(run, tmp_path):
    np.save(tmp_path / "good.npy", np.array({"x": X}, dtype=object))
    np.save(tmp_path / "bad.npy", np.array({"x": Payload(tmp_path / "owned")}, dtype=object))
    done = run("compare", tmp_path / "good.npy", tmp_path / "bad.npy")
    assert done.code == 3
    assert "builtins.exec" in done.err
    assert str(tmp_path / "bad.npy") in done.err
    assert "Traceback" not in done.err
    assert not (tmp_path / "owned").exists()


def test_a_truncated_file(run, pair, tmp_path):
    good, bad = pair({"x": X}, {"x": X})
    bad.write_bytes(bad.read_bytes()[:-9])
    done = run("compare", good, bad)
    assert done.code == 3
    assert "truncated or damaged" in done.err
    assert str(bad) in done.err
    (tmp_path / "empty.npy").write_bytes(b"")
    assert run("compare", good, tmp_path / "empty.npy").code == 3


def capture(folder, complete=True):
    writer = CaptureWriter(folder, Manifest(stage="data"))
    writer.add("x", X, role="output")
    writer._finish(complete=complete)
    return folder


def test_captures(run, tmp_path, pair):
    good, cut = capture(tmp_path / "good"), capture(tmp_path / "cut", complete=False)
    assert run("compare", good, good).code == 0
    done = run("compare", good, cut)
    assert done.code == 0
    assert "warning: the candidate's capture is incomplete" in done.out
    done = run("compare", good, pair({"x": X}, {"x": X})[0])
    assert done.code == 2
    assert "a capture cannot be compared with a file" in done.err
    shard = next((good / "shards").iterdir())
    shard.write_bytes(shard.read_bytes()[:-4])
    done = run("compare", good, cut)
    assert done.code == 3
    assert shard.name in done.err


def test_a_path_that_is_not_there(run, tmp_path):
    done = run("compare", tmp_path / "a.npy", tmp_path / "b.npy")
    assert done.code == 2
    assert f"there is no such file or folder\n  where: {tmp_path / 'a.npy'}" in done.err


def test_names_with_brackets_are_shown_as_they_are(run, pair):
    done = run("compare", *pair({"x[bold]": X}, {"x[bold]": X}))
    assert done.code == 0, done.err
    assert "x[bold]" in done.out


def test_files_with_brackets_in_their_names_are_shown_as_they_are(run, pair):
    done = run("compare", *pair({"x": X}, {"x": X}, ("run[old].npy", "port.npy")))
    assert (done.code, "run[old].npy" in done.out) == (0, True)


def test_an_output_folder_with_brackets_is_shown_as_it_is(project):
    done = project.check("forward", "--out", project.folder / "result[old]")
    assert "result[old]" in done.out


def test_an_output_folder_that_cannot_be_made_is_told(project):
    done = project.check("forward", "--out", project.folder / "candidate.py")
    assert (done.code, "Traceback" in done.err) == (2, False)


def test_a_log_of_an_earlier_run_does_not_outlive_a_failure(project):
    assert project.check("forward").code == 0
    log = project.folder / "result" / "log" / "forward_diff.log"
    assert "paralign: aligned" in log.read_text()
    project.edit("candidate", "return x @", "raise ValueError('broken')\n        return x @")
    assert project.check("forward").code == 3
    assert not log.exists() or "paralign: aligned" not in log.read_text()


# -- how the arguments of check are taken ------------------------------------------------------------------------------------


@pytest.fixture
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "port").mkdir()
    (tmp_path / "port" / "paralign.toml").write_text("")
    return tmp_path


def split(*arguments):
    return cli.split_arguments(list(arguments))


def test_without_arguments_it_is_the_project_here(here):
    del here
    assert split() == (".", [])


def test_a_folder_comes_first_then_stages(here):
    assert split("port") == ("port", [])
    assert split("port", "forward", "loss") == ("port", ["forward", "loss"])
    assert split(str(here / "port"), "data") == (str(here / "port"), ["data"])
    assert split("port/paralign.toml") == ("port/paralign.toml", [])


def test_stages_alone_are_of_the_project_here(here):
    assert split("forward") == (".", ["forward"])
    (here / "paralign.toml").write_text("")
    assert split("forward", "data") == (".", ["forward", "data"])


def test_a_folder_named_like_a_stage_is_the_stage_unless_it_holds_a_project(here):
    (here / "data").mkdir()
    (here / "paralign.toml").write_text("")
    assert split("data") == (".", ["data"])
    (here / "data" / "paralign.toml").write_text("")
    assert split("data") == ("data", [])
    assert split("data", "data") == ("data", ["data"])


def test_what_is_neither_is_taken_for_what_it_can_only_have_meant(here):
    assert split("prot") == ("prot", [])  # no project here: a mistyped folder
    (here / "paralign.toml").write_text("")
    assert split("forwrad") == (".", ["forwrad"])  # a project here: a mistyped stage
    assert split("somewhere/else") == ("somewhere/else", [])
    assert split("port") == ("port", [])


@pytest.mark.parametrize(
    "typed", [["port", "forward", "--json"], ["port", "--json", "forward", "--fresh"], ["port", "--out", "x", "forward"], []]
)
def test_options_may_stand_anywhere(typed):
    options = cli.parser().parse_args(["check", *typed])
    assert options.arguments == [t for t in typed if t in {"port", "forward"}]
    assert options.out == ("x" if "x" in typed else None)


@pytest.mark.parametrize("typed", [["port", "--out"], ["port", "--ou", "result"]])
def test_an_option_never_takes_the_folder_for_its_value(typed):
    with pytest.raises(SystemExit):
        cli.parser().parse_args(["check", *typed])


def test_codes_of_all_verdicts():
    assert cli.CODES == {"aligned": 0, "diverged": 1, "error": 3, "underpowered": 4, "not tested": 4}


@pytest.mark.parametrize(
    ("arguments", "told"), [([], "required: COMMAND"), (["chekc"], "no command 'chekc'"), (["compare", "a"], "required: CANDIDATE")]
)
def test_a_wrong_command_is_wrong_usage(capsys, arguments, told):
    with pytest.raises(SystemExit) as caught:
        cli.main(arguments)
    assert caught.value.code == 2
    assert told in capsys.readouterr().err


def test_the_version(capsys):
    from paralign import __version__

    with pytest.raises(SystemExit):
        cli.main(["--version"])
    assert capsys.readouterr().out == f"paralign {__version__}\n"


def test_an_interruption_has_its_own_code(capsys, monkeypatch):
    def interrupted(_options):
        raise KeyboardInterrupt

    monkeypatch.setattr(cli, "_compare", interrupted)
    assert cli.main(["compare", "a", "b"]) == 130
    assert capsys.readouterr().err == "interrupted\n"


def test_init_writes_a_project_and_says_what_comes_next(run, tmp_path):
    done = run("init", tmp_path / "port")
    assert done.code == 0
    assert done.out.splitlines()[-1] == f"next: paralign check {tmp_path / 'port'}"
    assert {p.name for p in (tmp_path / "port").iterdir()} == {"paralign.toml", "reference.py", "candidate.py"}
    again = run("init", tmp_path / "port")
    assert again.code == 2
    assert "would be overwritten" in again.err
