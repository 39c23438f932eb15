"""Prediction programs that prepare a picture otherwise: the line that does, beside the reference's."""

from __future__ import annotations

import numpy as np
import pytest
from tests.e2e.written_projects import checked, line_of

from paralign.model import ALIGNED, DIVERGED

pytest.importorskip("torch")
pytest.importorskip("paddle")
Image = pytest.importorskip("PIL.Image")

pytestmark = [pytest.mark.torch, pytest.mark.paddle]

REFERENCE = """
    import numpy as np
    import torch
    from PIL import Image

    def build_model():
        return torch.nn.Conv2d(3, 4, 3)

    def inputs():
        return np.zeros((1, 3, 16, 16), "float32")

    def predict(path, model):
        image = Image.open(path).convert("RGB").resize((16, 16), Image.BILINEAR)  # DUE
        image = (np.asarray(image, "float32") / 255 - 0.45) / 0.22
        with torch.no_grad():
            return {"mean": model(torch.from_numpy(image.transpose(2, 0, 1)[None])).mean((2, 3)).numpy()}
"""

CANDIDATE = """
    import numpy as np
    import paddle
    from PIL import Image

    def build_model():
        return paddle.nn.Conv2D(3, 4, 3)

    def predict(path, model):
        image = Image.open(path).convert("RGB").resize((16, 16), Image.BILINEAR)  # HERE
        image = (np.asarray(image, "float32") / 255 - 0.45) / 0.22
        with paddle.no_grad():
            return {"mean": model(paddle.to_tensor(image.transpose(2, 0, 1)[None])).mean([2, 3]).numpy()}
"""


@pytest.mark.parametrize("filter_", ["BILINEAR", "NEAREST"])
def test_another_filter_of_a_resizing(tmp_path, filter_):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 30, 3)).astype("uint8")
    Image.fromarray(pixels).save(tmp_path / "a.png")
    result = checked(tmp_path, REFERENCE, CANDIDATE.replace("BILINEAR", filter_), "infer", '[infer]\npaths = ["a.png"]\n')
    if filter_ == "BILINEAR":
        assert result.verdict == ALIGNED
        return
    assert result.verdict == DIVERGED
    assert result.divergence.candidate.source.endswith(f"candidate.py:{line_of(CANDIDATE, 'HERE')}")
    assert result.divergence.reference.source.endswith(f"reference.py:{line_of(REFERENCE, 'DUE')}")
