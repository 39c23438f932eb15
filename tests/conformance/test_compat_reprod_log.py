"""reprod_log's ``compare`` and ``utils`` on the two frameworks, held against the package itself where that is installed."""

from __future__ import annotations

import importlib
import logging

import numpy as np
import pytest

from paralign.compat import reprod_log

torch, paddle = pytest.importorskip("torch"), pytest.importorskip("paddle")
X = np.random.default_rng(0).normal(size=(4, 3)).astype("float32")


def models(wrong=0.0):
    one, two = torch.nn.Linear(3, 2), paddle.nn.Linear(3, 2)
    two.weight.set_value(one.weight.detach().numpy().T + np.float32(wrong))
    two.bias.set_value(one.bias.detach().numpy())
    return Called(one), Called(two)


class Called:
    """A model that is called by keyword, as reprod_log calls it."""

    def __init__(self, layer):
        self.layer = layer

    def __call__(self, x):
        return self.layer(x)

    def __getattr__(self, name):
        return getattr(self.layer, name)


def loss(inputs, outputs):
    return {"loss": (outputs * outputs).mean() + 0 * inputs["x"].sum()}


def packages():
    found = [reprod_log]
    try:
        theirs = importlib.import_module("reprod_log")
        importlib.import_module("reprod_log.compare")
        found.append(theirs)
    except ImportError:
        pass
    return found


@pytest.mark.parametrize("wrong", [0.0, 1e-3])
def test_models_and_their_steps_are_compared_as_by_the_package(capsys, wrong):
    said = []
    for package in packages():
        torch.manual_seed(0)
        package.compare.compare_forward(*models(wrong), {"x": X})
        package.compare.compare_loss_and_backward(*models(wrong), loss, loss, {"x": X}, lr=0.1, steps=2, diff_method="all")
        said.append(capsys.readouterr().out.splitlines())
    ends = "failed" if wrong else "passed"
    assert f"diff check {ends}" in said[0]
    assert f"diff check {ends} in iter 0" in said[0]
    assert (said[0][-1] == "diff check passed") is not bool(wrong)
    assert all(lines == said[0] for lines in said)


def test_arrays_become_tensors_of_their_own_type_and_come_back():
    given = {"x": X, "n": np.array([1, 2]), "flag": "kept"}
    for there, back in (("np2torch", "torch2np"), ("np2paddle", "paddle2np")):
        tensors = getattr(reprod_log.utils, there)(given)
        assert tensors.pop("flag") == "kept"
        again = getattr(reprod_log.utils, back)(tensors)
        assert {k: v.dtype for k, v in again.items()} == {"x": np.dtype("float32"), "n": np.dtype("int64")}
        assert list(getattr(reprod_log.utils, back)(tensors["x"])) == ["output"]
        with pytest.raises(AssertionError, match="a dict of arrays is needed, not a list"):
            getattr(reprod_log.utils, there)([X])


def test_a_logger_writes_each_line_once(tmp_path, capsys):
    for number in range(2):
        logger = reprod_log.utils.init_logger(str(tmp_path / "new" / f"{number}.log"), name="of a test")
        reprod_log.utils.check_print_diff(reprod_log.compare.compute_diff({"a": X}, {"a": X}), print_func=logger.info)
    lines = (tmp_path / "new" / "1.log").read_text().splitlines()
    assert [line.partition("INFO: ")[2] for line in lines] == ["a: ", "\tmean diff: check passed: True, value: 0.0"]
    assert len(capsys.readouterr().out.splitlines()) == 4
    for handler in logging.getLogger("of a test").handlers[:]:
        if not hasattr(handler, "records"):  # pytest's own stay
            logger.removeHandler(handler)
            handler.close()


def test_names_must_be_the_same_and_nothing_passes_unseen():
    with pytest.raises(AssertionError, match="b is found on one side only"):
        reprod_log.compare.check_data({"a": X}, {"a": X, "b": X})
    assert not reprod_log.utils.check_print_diff({}, print_func=print)
    nan = reprod_log.compare.compute_diff({"a": X}, {"a": X * np.nan})
    assert not reprod_log.utils.check_print_diff(nan, print_func=print)
