"""Every file of translations can be read: one key twice ends all reports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

if sys.version_info >= (3, 11):
    import tomllib
else:
    import tomli as tomllib

FILES = sorted((Path(__file__).parents[2] / "src/paralign/report/translations").glob("*.toml"))


@pytest.mark.parametrize("file", FILES, ids=[file.name for file in FILES])
def test_a_file_of_translations_can_be_read(file):
    assert tomllib.loads(file.read_text("utf-8"))


def test_there_are_files():
    assert FILES
