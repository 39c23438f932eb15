"""An ONNX program run node by node, each by ONNX Runtime.

Every value is seen, and can be replaced.

Nothing is fused on this way, so that results may differ from the whole program's by rounding. A node's place is its name and, where
the exporter kept it (PyTorch's does since 2.6), the line of the model's source.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Dict, Iterator, List, Sequence, Set, Tuple

import numpy as np
import onnx
import onnx.inliner
import onnx.numpy_helper

from paralign.adapters import _exported, _onnx
from paralign.adapters._calls import Paths
from paralign.adapters._operations import Watch, plain_attribute
from paralign.errors import UsageError

if TYPE_CHECKING:
    from paralign.adapters._calls import SourceLine
    from paralign.adapters.base import OperationSink

#: operators -> the name that frameworks have in common (``_kinds.py``); others are called as ONNX calls them, in small letters
KINDS = {
    operator: kind
    for kind, operators in {
        "add": "Add Sum",
        "subtract": "Sub",
        "multiply": "Mul",
        "divide": "Div Reciprocal",
        "power": "Pow",
        "negative": "Neg",
        "matmul": "MatMul Gemm",
        "convolution": "Conv",
        "convolution_transpose": "ConvTranspose",
        "batch_norm": "BatchNormalization",
        "layer_norm": "LayerNormalization",
        "group_norm": "GroupNormalization",
        "instance_norm": "InstanceNormalization",
        "rms_norm": "RMSNormalization",
        "log_softmax": "LogSoftmax",
        "embedding": "Gather",
        "attention": "Attention",
        "view": "Reshape Flatten Squeeze Unsqueeze Expand",
        "copy": "Identity",
        "concatenate": "Concat",
        "mean": "ReduceMean",
        "sum": "ReduceSum",
        "maximum": "ReduceMax Max",
        "minimum": "ReduceMin Min",
        "leaky_relu": "LeakyRelu",
        "average_pool": "AveragePool",
        "maximum_pool": "MaxPool",
        "adaptive_average_pool": "GlobalAveragePool",
        "interpolate": "Resize",
        "grid_sample": "GridSample",
        "random": "RandomNormal RandomUniform RandomNormalLike RandomUniformLike Bernoulli Multinomial",
        "fill": "Constant ConstantOfShape",
    }.items()
    for operator in operators.split()
}

#: a frame of the stack that PyTorch's exporter writes into a node
_FRAME = re.compile(r'File "([^"\n]+\.py)", line (\d+)')

#: packages whose frames are the exporter's or the framework's, by the folder they are installed in
_FOREIGN = re.compile(r"-packages/(torch|onnxscript|onnx_ir)/")


@contextmanager
def watched(model: Any, sink: "OperationSink", source: "SourceLine") -> Iterator[None]:
    """Have a program's nodes shown to a sink inside; the innermost sink sees them first."""
    if model is None:
        yield
        return
    earlier = [watcher.watch for watcher in model.watchers]
    watcher = Watcher(model, Watch(sink, source, Paths()), earlier)
    model.watchers.append(watcher)
    try:
        yield
    finally:
        model.watchers.remove(watcher)


class Watcher:
    """Runs a program's nodes for one observation, and shows them to those around it too.

    Args:
        program: the ``Program``.
        watch: of this observation.
        outer: of those around it.
    """

    def __init__(self, program: Any, watch: Watch, outer: "Sequence[Watch]") -> None:
        self.watch, self._outer, self._program = watch, list(outer), program

    @property
    def idle(self) -> bool:
        """Whether a call is none of this observation's."""
        return self.watch.idle

    def run(self, feed: "Dict[str, np.ndarray[Any, Any]]", names: Sequence[str]) -> List[Any]:
        """The outputs of these names."""
        if not hasattr(self._program, "nodes"):
            self._program.nodes = Nodes(self._program.source, self._program.path)
        watches = [watch for watch in (self.watch, *reversed(self._outer)) if not watch.idle]
        return list(self._program.nodes.run(feed, names, watches))


class Nodes:
    """A program taken apart.

    Args:
        source: the path of the file, or its bytes.
        where: the path that messages name.

    Raises:
        UsageError: the program cannot be read, or is in a form that keeps no nodes.
    """

    def __init__(self, source: Any, where: str) -> None:
        if source is None:
            raise UsageError(
                "the nodes of this session cannot be read", where="build_model", hint="return the path of the .onnx file instead"
            )
        try:
            model = onnx.load(source) if isinstance(source, str) else onnx.load_model_from_string(source)
            model = onnx.inliner.inline_local_functions(model) if model.functions else model
        except (ValueError, OSError, onnx.checker.ValidationError) as error:
            raise _exported.broken(where, "an ONNX program", error) from error
        self._where, self._model = where, model
        self._constants = {tensor.name: onnx.numpy_helper.to_array(tensor) for tensor in model.graph.initializer}
        self._sessions: Dict[Tuple[int, Tuple[str, ...]], Any] = {}

    def run(self, feed: "Dict[str, np.ndarray[Any, Any]]", names: Sequence[str], watches: Sequence[Watch]) -> List[Any]:
        """Every node in the file's order, which is one of execution.

        Raises:
            UsageError: the runtime cannot run a node by itself.
        """
        known: Dict[str, Any] = {**self._constants, **feed}
        for number, node in enumerate(self._model.graph.node):
            taken = [name for name in node.input if name]
            inputs = [known[name] for name in taken]
            for watch in watches:
                watch.before(inputs)
            outputs = self._run_node(number, node, known)
            for watch in watches:
                new = watch.after(
                    node.op_type,
                    inputs,
                    outputs,
                    _attributes(node),
                    random=_is_random(node),
                    kind=KINDS.get(node.op_type, node.op_type.lower()),
                    place=(node.name, stack_of(node)),
                )
                outputs = outputs if new is None else list(new)
            known.update(zip([name for name in node.output if name], outputs))
        return [known[name] for name in names]

    def _run_node(self, number: int, node: Any, known: Dict[str, Any]) -> List[Any]:
        given = {name: known[name] for name in _read(node) if name in known}
        if not all(isinstance(value, np.ndarray) for value in given.values()):
            raise self._alone(node, "it takes a sequence")
        key = number, tuple(value.dtype.name for value in given.values())
        try:
            if key not in self._sessions:
                self._sessions[key] = self._session(node, given)
            # memory of their own: a node that hands on its input must not be taken for its input
            return [np.array(value) for value in self._sessions[key].run(None, given)]
        except _onnx.failures() as error:
            raise self._alone(node, (str(error).strip().splitlines() or [""])[0]) from error

    def _alone(self, node: Any, why: str) -> UsageError:
        return UsageError(
            f"node {node.name or node.op_type} cannot be run by itself: {why}", where=self._where, hint="compare the program as a whole"
        )

    def _session(self, node: Any, given: Dict[str, Any]) -> Any:
        element = onnx.helper.np_dtype_to_tensor_dtype
        inputs = [onnx.helper.make_tensor_value_info(name, element(value.dtype), None) for name, value in given.items()]
        outputs = [onnx.ValueInfoProto(name=name) for name in node.output if name]
        graph = onnx.helper.make_graph([node], "node", inputs, outputs)
        model = onnx.helper.make_model(graph, opset_imports=self._model.opset_import, ir_version=self._model.ir_version)
        return _onnx.runtime(self._where).InferenceSession(model.SerializeToString(), providers=_onnx.PROVIDERS["cpu"])


def _read(node: Any) -> List[str]:
    """The values that a node reads, those that its subgraphs read from around them included."""
    found = dict.fromkeys(name for name in node.input if name)
    for attribute in node.attribute:
        for graph in [attribute.g, *attribute.graphs] if attribute.HasField("g") else attribute.graphs:
            own: Set[str] = {each.name for each in (*graph.input, *graph.initializer)}
            for inner in graph.node:
                found.update(dict.fromkeys(name for name in _read(inner) if name not in own))
                own.update(inner.output)
            found.update(dict.fromkeys(each.name for each in graph.output if each.name not in own))
    return list(found)


def _attributes(node: Any) -> Dict[str, Any]:
    """The attributes that are numbers or text."""
    found = {}
    for attribute in node.attribute:
        if attribute.type in (attribute.INT, attribute.INTS, attribute.FLOAT, attribute.FLOATS, attribute.STRING):
            value = onnx.helper.get_attribute_value(attribute)
            found[attribute.name] = plain_attribute(value.decode("utf-8", "replace") if isinstance(value, bytes) else value)
    return found


def _is_random(node: Any) -> bool:
    return KINDS.get(node.op_type) == "random"


def stack_of(node: Any) -> Tuple[str, ...]:
    """The model's lines that made a node, ``file:line``, innermost first.

    None where the exporter kept none.
    """
    for entry in node.metadata_props:
        if entry.key.endswith("stack_trace"):
            frames = [frame for frame in _FRAME.findall(entry.value) if _FOREIGN.search(frame[0]) is None]
            return tuple(f"{path}:{line}" for path, line in reversed(frames))
    return ()
