"""Ids of which each stands in the reference too, and that are not as many: what chose them is named."""

from __future__ import annotations

import numpy as np
from tests.unit.test_provenance import line_of, record
from tests.unit.test_provenance_counterparts import sides

from paralign.locate.provenance import tracing_back
from paralign.locate.provenance.values.readings import is_part_of_path

__all__ = ["record"]

PROGRAM = """
    import numpy as np

    TABLE = np.random.RandomState(1).randn(5, 3)

    def layer(codes, numbers):
        states = np.cumsum(TABLE[codes] * numbers[:, None], axis=0)
        return states, states[-1]

    def run():
        draw = np.random.RandomState(3)
        codes, numbers = draw.randint(0, 5, 40), draw.rand(12)
        taken = codes[-12:]  # HERE
        states, last = layer(taken, numbers)
        return {"mean": float(np.mean(np.tanh(states)) + last[0])}
"""

SHIFTED = PROGRAM.replace("codes[-12:]", "codes[:12]")


def named(record, candidate):
    found = tracing_back.of_value(sides(record, PROGRAM, candidate), "mean", "mean")
    return found.expression.line


def test_other_ids_of_a_right_column_are_named_where_they_are_taken(record):
    assert named(record, SHIFTED) == line_of(SHIFTED)


def test_ids_counted_from_the_other_end_are_named(record):
    wrong = PROGRAM.replace("codes[-12:]", "codes[::-1][:12]").replace("codes, numbers = ", "codes, numbers = ")
    assert named(record, wrong) == line_of(wrong)


def test_a_wrong_step_beside_right_ids_is_named_itself(record):
    wrong = PROGRAM.replace("  # HERE", "").replace(
        "np.cumsum(TABLE[codes] * numbers[:, None], axis=0)", "np.cumsum(TABLE[codes], axis=0)  # HERE"
    )
    assert named(record, wrong) == line_of(wrong)


def test_ids_under_names_of_the_candidate_s_own_are_right(record):
    """Classes counted from one, taken from a table with a row more, are another way to write it."""
    own = PROGRAM.replace("TABLE[codes]", "np.concatenate([np.zeros((1, 3)), TABLE])[codes + 1]")
    wrong = (
        own.replace("  # HERE", "")
        .replace("np.tanh(states)", "np.sin(states)")
        .replace('return {"mean"', 'return {  # HERE\n            "mean"')
    )
    assert named(record, wrong) == line_of(wrong) + 1


PATH = """
    from pathlib import Path

    def run():
        stem = "conf"
        path = Path("there") / stem / "solar"
        key = "weight"
        return {"loss": 3.25 * {"weight": 0.7 + 0.0 * len(path.parts)}[key]}
"""


def test_a_text_that_says_where_a_file_lies_is_told_from_one_that_chooses(record):
    texts = {each.scalar: each for each in record(PATH).expressions if isinstance(each.scalar, str) and each.kind == "constant"}
    assert is_part_of_path(texts["conf"])
    assert not is_part_of_path(texts["weight"])


READ = """
    import numpy as np
    from pathlib import Path

    ROOT = Path("FOLDER")

    def table(split):
        name = split + ".npy"
        return np.load(ROOT / name)

    def run():
        return {"loss": float(np.mean(table("train") * 3.5))}  # HERE
"""


def test_another_file_that_is_read_is_named_by_its_text(record, tmp_path):
    for number, split in enumerate(("train", "val")):
        np.save(tmp_path / f"{split}.npy", np.random.RandomState(number).rand(12))
    program = READ.replace("FOLDER", tmp_path.as_posix())
    wrong = program.replace('table("train")', 'table("val")')
    found = tracing_back.of_value(sides(record, program, wrong), "loss", "loss")
    assert found.expression.scalar == "val"
    assert found.expression.line == line_of(wrong)


def test_a_number_of_the_reference_s_is_not_blamed_on_where_it_is_read(record, tmp_path):
    for name in ("conf", "settings"):
        np.save(tmp_path / f"{name}.npy", np.float64(0.7))
    program = READ.replace("FOLDER", tmp_path.as_posix()).replace("np.load(ROOT / name)", "float(np.load(ROOT / name))")
    both = sides(record, program.replace('table("train")', 'table("settings")'), program.replace('table("train")', 'table("conf")'))
    source = next(e.source for e in both.candidate.expressions if e.scalar == 3.5).rpartition(":")[0] + f":{line_of(program)}"
    found = tracing_back.of_number(both, source, 0.7)
    assert found is None, (found.expression.kind, found.expression.mark, found.expression.line)
