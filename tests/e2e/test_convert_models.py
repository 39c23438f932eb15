"""``paralign convert weights --model``: plans made from two models, proven by running them, and what cannot be proven."""

import json

import numpy as np
import pytest

from paralign.dtypes import Typed
from paralign.formats import open_checkpoint, save

NET = """
import numpy as np

class Layer:
    def __init__(self, seed):
        random = np.random.RandomState(seed)
        self.parameters = {{"weight": random.randn(6, 6).astype("float32"), "bias": random.randn(6).astype("float32")}}
    def __call__(self, x):
        return np.tanh(x @ self.parameters["weight"] + self.parameters["bias"])

class Model:
    def __init__(self):
        self.{one}, self.{two} = Layer(1), Layer(2)
    def __call__(self, x):
        return {call}

def build_model():
    return Model()

def inputs():
    return np.random.RandomState(0).randn(4, 6).astype("float32")
"""


@pytest.fixture
def models(tmp_path):
    """Two numpy models of equal layers under other names, and weights for the first."""
    (tmp_path / "paper.py").write_text(NET.format(one="alpha", two="beta", call="self.beta(self.alpha(x))"))
    (tmp_path / "port.py").write_text(NET.format(one="up", two="down", call="self.down(self.up(x))"))
    random = np.random.default_rng(0)
    weights = {f"module.{layer}.parameters.{leaf}": Typed(random.standard_normal(shape).astype(np.float32), "float32")
               for layer in ("alpha", "beta") for leaf, shape in (("weight", (6, 6)), ("bias", (6,)))}  # fmt: skip
    save(tmp_path / "a.npz", weights)
    return tmp_path


PAIR = ("--model", "paper.py:build_model", "--model", "port.py:build_model")


def arrays(path):
    checkpoint = open_checkpoint(path)
    return {name: checkpoint.value(name).array for name in checkpoint.names}


def test_functions_name_two_models_and_the_run_proves_the_plan(run, models):
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, "--save-rules", "rules.toml", cwd=models)
    assert done.code == 0, done.out + done.err
    assert "verdict: proven" in done.out
    assert "the file holds the weights of the reference" in done.out
    one, other = arrays(models / "a.npz"), arrays(models / "b.npz")
    assert np.array_equal(one["module.alpha.parameters.weight"], other["up.parameters.weight"])
    assert np.array_equal(one["module.beta.parameters.bias"], other["down.parameters.bias"])
    # the rules give the same without the models, and with them
    assert run("convert", "weights", "a.npz", "c.npz", "--rules", "rules.toml", cwd=models).code == 0
    done = run("convert", "weights", "a.npz", "d.npz", "--rules", "rules.toml", *PAIR, cwd=models)
    assert (done.code, "verdict: proven" in done.out) == (0, True)
    assert (models / "b.npz").read_bytes() == (models / "c.npz").read_bytes() == (models / "d.npz").read_bytes()
    # and back: the file's names tell whose weights they are
    done = run("convert", "weights", "b.npz", "back.npz", *PAIR, cwd=models)
    assert (done.code, "the file holds the weights of the candidate" in done.out) == (0, True), done.out
    assert {f"module.{n}": v.tobytes() for n, v in arrays(models / "back.npz").items()} == {n: v.tobytes() for n, v in one.items()}


def test_the_run_corrects_an_order_that_names_do_not_tell(run, models):
    (models / "port.py").write_text(NET.format(one="x1", two="x2", call="self.x1(self.x2(x))"))
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, "--json", cwd=models)
    told = json.loads(done.out)
    assert (done.code, told["verdict"]) == (0, "proven"), done.out
    assert told["runs"] > 1
    assert any("the run chose otherwise" in note for note in told["notes"])
    assert np.array_equal(arrays(models / "a.npz")["module.alpha.parameters.weight"], arrays(models / "b.npz")["x2.parameters.weight"])


def test_without_a_run_a_plan_is_not_proven_and_says_what_is_ambiguous(run, models):
    (models / "port.py").write_text(NET.format(one="x1", two="x2", call="self.x1(self.x2(x))"))
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, "--no-proof", cwd=models)
    assert done.code == 4
    assert "verdict: not proven" in done.out
    assert "alpha.parameters.weight" in done.out[done.out.index("ambiguous") :]
    for name in ("paper", "port"):
        path = models / f"{name}.py"
        path.write_text(path.read_text().replace("def inputs", "def no_inputs"))
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, "--overwrite", cwd=models)
    assert (done.code, "for want of inputs" in done.out) == (4, True), done.out
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, "--overwrite", "--inputs", "4,6", cwd=models)
    assert (done.code, "verdict: proven" in done.out) == (0, True), done.out


def test_branches_that_no_run_can_tell_apart_are_named(run, models):
    for name, (one, two) in (("paper", ("alpha", "beta")), ("port", ("x1", "x2"))):
        (models / f"{name}.py").write_text(NET.format(one=one, two=two, call=f"self.{one}(x) + self.{two}(x)"))
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, "--json", cwd=models)
    told = json.loads(done.out)
    assert (done.code, told["verdict"]) == (0, "proven")
    assert told["ambiguous"]
    assert "ambiguous:" in run("convert", "weights", "a.npz", "b.npz", *PAIR, "--overwrite", cwd=models).out


def test_models_that_differ_are_no_success(run, models):
    text = (models / "port.py").read_text()
    (models / "port.py").write_text(text.replace("np.tanh(x", "np.tanh(1.001 * x"))
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, cwd=models)
    assert done.code == 1
    assert "verdict: differs: with these weights the models give different outputs (error" in done.out
    assert (models / "b.npz").exists()


def test_a_side_that_does_not_run_proves_nothing(run, models):
    text = (models / "port.py").read_text()
    (models / "port.py").write_text(text.replace("return np.tanh(x", 'raise RuntimeError("no such kernel")\n        return np.tanh(x'))
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, cwd=models)
    assert (done.code, "the models could not be run: the candidate failed: RuntimeError: no such kernel" in done.out) == (4, True), done.out


def test_a_model_that_cannot_be_built_is_a_failed_side(run, models):
    (models / "port.py").write_text("import nothing_of_this_name\n")
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, cwd=models)
    assert (done.code, "nothing_of_this_name" in done.err) == (3, True), done.err
    assert not (models / "b.npz").exists()


def test_outputs_that_do_not_depend_on_the_weights_prove_nothing(run, models):
    for name in ("paper", "port"):
        path = models / f"{name}.py"
        path.write_text(path.read_text().replace("np.tanh(x @", "0 * np.tanh(x @"))
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, cwd=models)
    assert (done.code, "the outputs are constant" in done.out) == (4, True), done.out


def rewritten(models, change):
    tensors = {name: Typed(value.copy(), "float32") for name, value in arrays(models / "a.npz").items()}
    change(tensors)
    save(models / "a.npz", tensors, overwrite=True)


UNPLACED = {
    "the file lacks a tensor": (lambda t: t.pop("module.beta.parameters.bias"), "beta.parameters.bias: in the model, but not in the file"),
    "the file has one more": (
        lambda t: t.update({"module.more": t["module.alpha.parameters.bias"]}),
        "more: in the file, but not in the model whose weights it holds",
    ),
    "another shape": (
        lambda t: t.update({"module.beta.parameters.bias": Typed(np.zeros(7, np.float32), "float32")}),
        "beta.parameters.bias: has shape (7,) in the file, (6,) in the model",
    ),
}


@pytest.mark.parametrize("case", UNPLACED)
def test_a_tensor_without_a_place_stops_everything(run, models, case):
    change, message = UNPLACED[case]
    rewritten(models, change)
    (models / "b.npz").write_bytes(b"precious")
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, "--overwrite", cwd=models)
    assert (done.code, message in done.out, "verdict: incomplete" in done.out) == (1, True, True), done.out
    assert (models / "b.npz").read_bytes() == b"precious"


def test_a_rule_leaves_out_what_the_model_lacks(run, models):
    rewritten(models, lambda t: t.update({"module.more": t["module.alpha.parameters.bias"]}))
    (models / "rules.toml").write_text('[[drop]]\nside = "reference"\nname = "more"\n')
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, "--rules", "rules.toml", cwd=models)
    assert (done.code, "verdict: proven" in done.out) == (0, True), done.out
    assert "more" not in arrays(models / "b.npz")


def test_a_wrong_rule_with_models_is_told(run, models):
    (models / "rules.toml").write_text('[[rename]]\nreference = "gamma"\ncandidate = "up"\n')
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, "--rules", "rules.toml", cwd=models)
    assert (done.code, "'gamma' speaks of no tensor of the reference" in done.err) == (2, True), done.err


def test_weights_of_neither_model(run, models):
    save(models / "c.npz", {"x": Typed(np.zeros(3, np.float32), "float32")})
    done = run("convert", "weights", "c.npz", "b.npz", *PAIR, cwd=models)
    assert (done.code, "no tensor of the file is in either model: it holds x" in done.err) == (2, True), done.err


def test_a_project_and_a_dry_run(run, models):
    (models / "paralign.toml").write_text(
        '[reference]\nmodule = "paper.py"\nframework = "numpy"\n[candidate]\nmodule = "port.py"\nframework = "numpy"\n'
    )
    before = sorted(p.name for p in models.iterdir())
    done = run("convert", "weights", "a.npz", "b.npz", "--model", ".", "--dry-run", cwd=models)
    assert done.code == 0, done.err
    assert "nothing was written: --dry-run" in done.out
    assert "alpha.*" in done.out
    assert "verdict: proven" in done.out
    assert sorted(p.name for p in models.iterdir() if p.name != "__pycache__") == before


def test_what_both_models_give_is_compared(run, models):
    path = models / "port.py"
    path.write_text(path.read_text().replace("return self.down(self.up(x))", "return self.down(self.up(x)), x[:2]"))
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, cwd=models)
    assert (done.code, "verdict: proven" in done.out) == (0, True), done.out
    assert "the reference gives 1 output and the candidate 2: what both give was compared" in done.out


def test_outputs_of_other_shapes_prove_nothing(run, models):
    path = models / "port.py"
    path.write_text(path.read_text().replace("return self.down(self.up(x))", "return self.down(self.up(x))[:1]"))
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, cwd=models)
    assert (done.code, "the outputs cannot be compared" in done.out, "verdict: not proven" in done.out) == (4, True, True), done.out


def test_a_destination_that_is_there_is_told_before_anything_runs(run, models):
    (models / "b.npz").write_bytes(b"precious")
    done = run("convert", "weights", "a.npz", "b.npz", *PAIR, cwd=models)
    assert (done.code, "the destination is there already" in done.err, "starting both sides" in done.err) == (2, True, False)
