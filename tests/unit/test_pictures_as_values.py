"""Pictures as arrays: those that were read, and no others."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.worker.instrumentation.value_marks import picture_of

Image = pytest.importorskip("PIL.Image")


def test_a_picture_that_was_only_opened_is_not_read(tmp_path):
    Image.new("RGB", (4, 3), (1, 2, 3)).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as opened:
        assert picture_of(opened) is None
        opened.load()
        assert picture_of(opened).array.shape == (3, 4, 3)
        assert picture_of(opened.convert("L")).array.shape == (3, 4)


def test_what_only_looks_like_a_picture_is_an_object():
    class Odd:
        im = True

        @property
        def __array_interface__(self):
            raise RuntimeError("no pixels")

    assert picture_of(Odd()) is None
    assert picture_of(np.zeros(3)) is None
    assert picture_of("a.png") is None
