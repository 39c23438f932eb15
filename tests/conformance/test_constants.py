"""The task ``constants``: what a side computes of numbers alone, while it constructs its model and while that runs."""

from __future__ import annotations

import numpy as np
import pytest

from paralign.capture import Capture, CaptureWriter
from paralign.model import Manifest
from paralign.worker.protocol import Job
from paralign.worker.sides.session import Session
from paralign.worker.tasks import perform

X = np.random.default_rng(0).normal(size=(2, 6)).astype("float32")


def torch_model():
    import torch

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.scale = torch.nn.Parameter(torch.ones(6) * 0.5)
            table = torch.arange(6, dtype=torch.float32) * 3.0
            shifted = table + 0.25
            self.register_buffer("table", shifted)

        def forward(self, x):
            places = torch.arange(6, dtype=torch.float32) * 7.0
            return x * self.scale + self.table + places

    return Net()


def paddle_model():
    import paddle

    class Net(paddle.nn.Layer):
        def __init__(self):
            super().__init__()
            self.scale = self.create_parameter([6], default_initializer=paddle.nn.initializer.Constant(0.5))
            table = paddle.arange(6, dtype="float32") * 3.0
            shifted = table + 0.25
            self.register_buffer("table", shifted)

        def forward(self, x):
            places = paddle.arange(6, dtype="float32") * 7.0
            return x * self.scale + self.table + places

    return Net()


MODELS = {"torch": torch_model, "paddle": paddle_model}


@pytest.fixture(params=[pytest.param("torch", marks=pytest.mark.torch), pytest.param("paddle", marks=pytest.mark.paddle)])
def capture(request, tmp_path):
    pytest.importorskip(request.param)
    with CaptureWriter(tmp_path / "inputs", Manifest(side="reference", stage="inputs")) as writer:
        Session("reference", {}, "numpy").save_tree(writer, "inputs", X, role="input")
    session = Session("reference", {"build_model": MODELS[request.param]}, request.param)
    for out in ("first", "second"):  # in the first, what the framework imports only now is traced as well
        perform(session, Job("constants", str(tmp_path / out), values={"inputs": str(tmp_path / "inputs")}))
    return Capture.open(tmp_path / "second")


def values(capture, kind):
    return [capture.value(r).array for r in capture.records if r.name.startswith(kind) and r.shape]


def count(arrays, wanted):
    return sum(a.shape == np.shape(wanted) and np.allclose(a, wanted) for a in arrays)


def test_tables_of_the_constructor_are_steps_and_lead_back_to_each_other(capture):
    steps = [r for r in capture.records if r.name.startswith("step_") and r.shape]
    made = {tuple(np.round(capture.value(r).array.reshape(-1), 3)): r for r in steps}
    table, shifted = made[tuple(np.arange(6) * 3.0)], made[tuple(np.arange(6) * 3.0 + 0.25)]
    assert table.id in shifted.inputs
    assert table.source != shifted.source


def test_an_operation_of_numbers_is_recorded_once_and_reading_it_is_none(capture):
    found = values(capture, "value_")
    assert count(found, np.arange(6) * 3.0) == 1
    assert count(found, np.arange(6) * 7.0) == 1


def test_what_inputs_and_parameters_lead_to_is_no_constant(capture):
    everything = values(capture, "value_") + values(capture, "step_")
    assert count(everything, X * 0.5) == 0
    assert count(values(capture, "step_"), np.arange(6) * 7.0) == 0  # tensors count while the model is constructed only
