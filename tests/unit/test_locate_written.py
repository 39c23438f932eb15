"""What source code says around a line, as the file is now."""

from __future__ import annotations

import pytest

from paralign.locate.source.statements import function_of, no_gradient_block

CODE = """\
import torch

def plain(x):
    return x * 2

@torch.no_grad()
def frozen(x):
    def inner(y):
        return y + 1
    return inner(x)

def mixed(x):
    y = x + 1
    with torch.no_grad():
        y = y * 3
    return y
"""


@pytest.fixture
def file(tmp_path):
    path = tmp_path / "model.py"
    path.write_text(CODE)
    return path


@pytest.mark.parametrize(("line", "begin"), [(1, 0), (4, 3), (9, 8), (10, 7), (16, 12)])
def test_the_innermost_function(file, line, begin):
    assert function_of(f"{file}:{line}") == (str(file), begin)


@pytest.mark.parametrize(("line", "block"), [(4, None), (9, 6), (10, 6), (13, None), (15, 14), (16, None)])
def test_what_switches_gradients_off(file, line, block):
    assert no_gradient_block(f"{file}:{line}") == (None if block is None else f"{file}:{block}")


def test_a_file_that_was_edited_is_read_again(file):
    assert function_of(f"{file}:4")[1] == 3
    assert no_gradient_block(f"{file}:15") == f"{file}:14"
    file.write_text("\n\n" + CODE)
    assert function_of(f"{file}:6")[1] == 5
    assert no_gradient_block(f"{file}:17") == f"{file}:16"


@pytest.mark.parametrize("text", [None, "def broken(:\n"])
def test_what_cannot_be_read(tmp_path, text):
    path = tmp_path / "other.py"
    if text is not None:
        path.write_text(text)
    assert function_of(f"{path}:1") == (str(path), 0)
    assert no_gradient_block(f"{path}:1") is None
