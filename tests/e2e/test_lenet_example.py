"""examples/lenet: the port is right, a wrong one is found, and its README lists the APIs that its code uses."""

import re
import runpy
from pathlib import Path

import numpy as np
import pytest

EXAMPLE = Path(__file__).parents[2] / "examples" / "lenet"


def judged(change=lambda _: None):
    for module in ("torch", "paddle"):
        pytest.importorskip(module)
    from paralign import Side, check

    reference, candidate = (runpy.run_path(str(EXAMPLE / side / f"{side}.py"))["build_model"]() for side in ("reference", "candidate"))
    change(candidate)
    images = np.random.default_rng(0).normal(size=(4, 1, 28, 28)).astype("float32")
    return check(Side(model=reference), Side(model=candidate), inputs=images, stages=["weights", "forward"])


def test_the_port_is_aligned():
    result = judged()
    assert {stage.name: stage.verdict for stage in result.stages} == {"weights": "aligned", "forward": "aligned"}


def test_a_forgotten_activation_is_found():
    def forget(model):
        import paddle

        model.features[4] = paddle.nn.Identity()

    assert judged(forget).stages[1].verdict == "diverged"


@pytest.mark.parametrize("page", ["README.md", "README.zh.md"])
def test_the_table_lists_what_both_programs_use(page):
    rows = re.findall(r"^\| `(torch[^`]*)` \| `(paddle[^`]*)` \|", (EXAMPLE / page).read_text(encoding="utf-8"), re.MULTILINE)
    for column, side in enumerate(("reference", "candidate")):
        source = (EXAMPLE / side / f"{side}.py").read_text()
        used = {name.rpartition(".")[2] for name in re.findall(r"\b(?:nn|torch|paddle)\.[A-Za-z]\w*", source)} - {"nn"}
        assert used == {row[column].rpartition(".")[2] for row in rows}
