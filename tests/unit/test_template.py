"""The project that `paralign init` writes."""

from __future__ import annotations

import ast

import pytest

from paralign.errors import UsageError
from paralign.registry import SIGNATURES
from paralign.run.project import read
from paralign.run.template import FILES, write


def test_the_three_files_are_written_into_a_new_folder(tmp_path):
    paths = write(tmp_path / "a" / "port")
    assert [p.name for p in paths] == ["paralign.toml", "reference.py", "candidate.py"]
    assert [p.read_text() for p in paths] == list(FILES.values())


def test_the_written_project_can_be_read(tmp_path):
    write(tmp_path)
    project = read(tmp_path)
    assert (project.reference.framework, project.candidate.framework) == ("torch", "paddle")
    assert project.inputs["shape"] == [4, 3, 32, 32]
    assert project.labels["high"] == 10


@pytest.mark.parametrize("name", ["reference.py", "candidate.py"])
def test_sides_have_only_functions_that_are_called_each_with_its_comment(name):
    functions = [n for n in ast.parse(FILES[name]).body if isinstance(n, ast.FunctionDef)]
    assert {f.name for f in functions} >= {"build_model", "loss", "metric", "build_optimizer", "build_scheduler"}
    for function in functions:
        assert ast.get_docstring(function)
        signature = f"{function.name}({', '.join(a.arg for a in function.args.args)})"
        assert signature in SIGNATURES[function.name]


@pytest.mark.parametrize("there", list(FILES))
def test_nothing_is_overwritten_and_then_nothing_is_written(tmp_path, there):
    (tmp_path / there).write_text("mine")
    with pytest.raises(UsageError, match=f"{there} would be overwritten") as caught:
        write(tmp_path)
    assert caught.value.hint == "name another folder, or move the files away"
    assert {p.name: p.read_text() for p in tmp_path.iterdir()} == {there: "mine"}


def test_a_folder_that_cannot_be_made_is_told(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match="the project cannot be written") as caught:
        write(tmp_path / "file" / "port")
    assert caught.value.where == str(tmp_path / "file" / "port")
