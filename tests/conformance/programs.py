"""ONNX programs for tests, written node by node with the package onnx."""

from __future__ import annotations

import numpy as np
import pytest

#: the file that nodes say they come from, and the weights of :func:`program`
SOURCE = "/somewhere/net.py"
RANDOM = np.random.RandomState(0)
WEIGHTS = {"w1": RANDOM.randn(6, 8), "w2": RANDOM.randn(8, 3), "b": RANDOM.randn(3)}


def needed():
    """The packages onnx and onnxruntime, else the test is skipped and says so."""
    pytest.importorskip("onnxruntime", reason="ONNX programs need onnxruntime (the extra `onnx`)")
    return pytest.importorskip("onnx", reason="writing ONNX programs needs onnx (the extra `onnx`)")


def node(onnx, operator, inputs, output, line, **attributes):
    """A node with its line, as PyTorch's exporter keeps it."""
    made = onnx.helper.make_node(operator, inputs, [output], name=f"node_{output}", **attributes)
    entry = made.metadata_props.add()
    entry.key = "pkg.torch.onnx.stack_trace"
    entry.value = f'File "{SOURCE}", line {line}, in forward\n    x = step(x)\n  File "/v/site-packages/torch/nn/modules/linear.py", line 1, in forward'
    return made


def save(onnx, path, nodes, inputs, outputs, constants=None):
    """Write a program; inputs and outputs map names to shapes."""
    values = [
        [onnx.helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, shape) for name, shape in each.items()]
        for each in (inputs, outputs)
    ]
    held = [onnx.numpy_helper.from_array(np.asarray(value, "float32"), name) for name, value in (constants or {}).items()]
    graph = onnx.helper.make_graph(nodes, "net", *values, held)
    onnx.save(onnx.helper.make_model(graph, opset_imports=[onnx.helper.make_opsetid("", 18)], ir_version=9), str(path))
    return str(path)


def program(path, activation="Relu", axis=-1, scale=1.0, extra=()):
    """Two layers and a softmax over any number of rows; the arguments plant faults."""
    onnx = needed()
    nodes = [
        node(onnx, "MatMul", ["x", "w1"], "h", 3),
        node(onnx, activation, ["h"], "a", 4),
        node(onnx, "Gemm", ["a", "w2", "b"], "z", 5),
        *extra,
        node(onnx, "Softmax", ["z"], "y", 6, axis=axis),
    ]
    constants = {**WEIGHTS, "w2": WEIGHTS["w2"] * scale}
    return save(onnx, path, nodes, {"x": ["n", 6]}, {"y": ["n", 3]}, constants)


def expected(x):
    """What :func:`program` computes, in numpy."""
    z = np.maximum(x @ WEIGHTS["w1"].astype(x.dtype), 0) @ WEIGHTS["w2"].astype(x.dtype) + WEIGHTS["b"].astype(x.dtype)
    e = np.exp(z - z.max(-1, keepdims=True))
    return e / e.sum(-1, keepdims=True)
