"""``paralign weights diff`` as a user runs it."""

import json
import pickle

import numpy as np
import pytest

from paralign.dtypes import Typed
from paralign.formats import save


def floats(*shape, seed=0, scale=1.0):
    return Typed((np.random.default_rng(seed).standard_normal(shape) * scale).astype(np.float32), "float32")


def test_the_same(run, tmp_path):
    save(tmp_path / "a.pth", {"w": floats(3, 4), "b": floats(4)})
    save(tmp_path / "b.pdparams", {"w": Typed(floats(3, 4).array.T, "float32"), "b": floats(4)})
    done = run("weights", "diff", tmp_path / "a.pth", tmp_path / "b.pdparams")
    assert (done.code, done.err) == (0, "")
    assert done.out.splitlines()[-1] == "the same: 2 tensors agree, 0 differ, 0 only in the first, 0 only in the second"
    assert (
        "compared transposed: the shapes allow no other way"
        in run("weights", "diff", tmp_path / "a.pth", tmp_path / "b.pdparams", "--all").out
    )


def test_what_differs_is_listed_worst_first(run, tmp_path):
    tensors = {f"t{n}": floats(50, seed=n) for n in range(30)}
    save(tmp_path / "a.npz", {**tensors, "gone": floats(2)})
    other = {name: Typed(value.array * np.float32(1 + n / 100), "float32") for n, (name, value) in enumerate(tensors.items())}
    save(tmp_path / "b.npz", {**other, "new": floats(2)})
    done = run("weights", "diff", tmp_path / "a.npz", tmp_path / "b.npz")
    lines = done.out.splitlines()
    assert done.code == 1
    assert lines[2:6] == ["only in the first:", "  gone", "only in the second:", "  new"]
    assert lines[7].split()[:2] == ["t29", "0.29"]
    assert "… and 9 more that differ (--all lists every tensor)" in done.out
    assert lines[-1] == "different: 1 tensor agrees, 29 differ, 1 only in the first, 1 only in the second"
    told = json.loads(run("weights", "diff", tmp_path / "a.npz", tmp_path / "b.npz", "--json").out)
    assert (told["same"], told["missing"], told["extra"], told["different"][0]) == (False, ["gone"], ["new"], "t29")
    assert told["rows"][29]["spreads"][0]["std"] == pytest.approx(float(tensors["t29"].array.std()), rel=1e-5)
    assert run("weights", "diff", tmp_path / "a.npz", tmp_path / "b.npz", "--tolerance", "0.5").code == 1  # tensors of one file alone


def test_a_group_that_one_training_shrank(run, tmp_path):
    def trained(seed, factor=1.0):
        random = np.random.default_rng(seed)
        found = {}
        for n in range(6):
            found[f"blocks.{n}.fc.weight"] = Typed((random.standard_normal((40, 40)) * 0.1).astype(np.float32), "float32")
            found[f"blocks.{n}.norm.weight"] = Typed(((1 + 0.03 * random.standard_normal(40)) * factor).astype(np.float32), "float32")
        return found

    save(tmp_path / "official.pth", trained(0))
    save(tmp_path / "mine.pth", trained(1, 0.6))
    save(tmp_path / "right.pth", trained(2))
    done = run("weights", "diff", tmp_path / "official.pth", tmp_path / "mine.pth")
    assert done.code == 1
    line = next(line for line in done.out.splitlines() if line.startswith("blocks.{}.norm.weight"))
    assert "abnormally small in the second" in line
    assert "abnormally" not in run("weights", "diff", tmp_path / "official.pth", tmp_path / "right.pth").out


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        (["a.pth", "none.pth"], 2, "the file cannot be read"),
        (["a.pth", "evil.pth"], 3, "the file refers to posix.system, which is refused; nothing of it was run"),
        (["evil.pth", "a.pth"], 3, "the file refers to posix.system"),
        (["a.pth", "a.pth", "--rules", "rules.toml"], 2, "'x' speaks of no tensor of the source"),
        (["a.pth", "a.pth", "--tolerance", "-1"], 2, "is no number from 0 on"),
        (["a.pth"], 2, "the following arguments are required: B"),
    ],
)
def test_what_cannot_be_compared(run, tmp_path, arguments, code, message):
    save(tmp_path / "a.pth", {"w": floats(3)})
    (tmp_path / "rules.toml").write_text('[[rename]]\nreference = "x"\ncandidate = "y"\n')

    class Code:
        def __reduce__(self):
            import os

            return os.system, ("touch was-run",)

    (tmp_path / "evil.pth").write_bytes(pickle.dumps({"w": Code()}, 4))
    done = run("weights", "diff", *arguments, cwd=tmp_path)
    assert (done.code, message in done.err) == (code, True), done.err
    assert not (tmp_path / "was-run").exists()
