"""Pictures are values that are compared: the line that makes one wrong is named, not what is computed of it."""

from __future__ import annotations

import pytest
from tests.unit.test_provenance import line_of, record

from paralign.locate.provenance import tracing_back
from paralign.worker.provenance.value_marks import array_of, mark

__all__ = ["record"]

Image = pytest.importorskip("PIL.Image")

PROGRAM = """
    import numpy as np
    from PIL import Image
    def run():
        pixels = (np.random.RandomState(0).rand(20, 30, 3) * 255).astype("uint8")
        picture = Image.fromarray(pixels).resize((12, 8), Image.BILINEAR)  # HERE
        grey = picture.convert("L")
        return np.asarray(grey, "float32") / 255
"""


def test_the_resizing_is_named_and_not_what_follows(record):
    sides = tracing_back.Sides(record(PROGRAM), record(PROGRAM.replace("BILINEAR", "NEAREST")))
    found = tracing_back.of_value(sides, "", "")
    assert found is not None
    assert found.expression.line == line_of(PROGRAM)


def test_a_picture_that_was_only_opened_is_not_read(tmp_path):
    Image.new("RGB", (4, 3), (1, 2, 3)).save(tmp_path / "a.png")
    with Image.open(tmp_path / "a.png") as opened:
        assert array_of(opened) is None
        assert mark(opened)[0] == "k"
        opened.load()
        assert array_of(opened).array.shape == (3, 4, 3)


def test_what_only_looks_like_a_picture_is_an_object():
    class Odd:
        im = True

        @property
        def __array_interface__(self):
            raise RuntimeError("no pixels")

    assert array_of(Odd()) is None
