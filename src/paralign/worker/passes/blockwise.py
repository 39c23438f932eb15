"""Models that do not fit into memory, run block by block.

They are built without memory for weights; weights are read from a sharded checkpoint.

A *block* is one of the repeated modules that most of a model consists of. A *unit* is what one worker serves as its model: a block, or
the shell, which is the model with blocks that hand on what they are given.
"""

from __future__ import annotations

import hashlib
import inspect
import json
import os
import re
from collections import defaultdict
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Callable, Dict, List, Optional, Tuple

from paralign.adapters.base import Lazy
from paralign.adapters.finding import load
from paralign.capture.bounds import Limit, open_regular
from paralign.capture.safetensors import TensorFile
from paralign.dtypes import unboxed
from paralign.errors import CaptureFormatError, UsageError
from paralign.worker.passes.forward import attempt_run
from paralign.worker.protocol import FreeRun, Ran, Stream, Streamed
from paralign.worker.sides.session import DOUBLE, NATIVE
from paralign.worker.values.stored_ranges import SUFFIX, Place, read_places, read_tensor

if TYPE_CHECKING:
    from paralign.adapters.base import Adapter
    from paralign.capture import Capture, CaptureWriter
    from paralign.dtypes import Typed
    from paralign.worker.protocol.messages import SideDescription
    from paralign.worker.sides.session import Session

#: the unit that is the model without its blocks
SHELL = "shell"

#: an index of shards has some 100 bytes for each tensor
INDEX = Limit("PARALIGN_MAX_INDEX", 1 << 28, "bytes")

#: attributes that hold a block's own number: they do not make it another kind
_NUMBER = re.compile("idx|index|layer|number|_id$")

#: what frameworks keep in a layer that says nothing of what it computes: a name of its own for each
_BOOKKEEPING = frozenset({"_full_name", "_name_scope", "_name"})

_NUMBERED = re.compile(r"(.*?)\.?(\d+)$")


class Shards:
    """Tensors of a safetensors file or of a set of shards, each read where it lies.

    Args:
        path: a file, an index (``*.index.json``), or the folder of either; or a file of ranges (``*-ranges.json``).

    Raises:
        UsageError: it is none of these.
    """

    def __init__(self, path: str) -> None:
        self.path = _index_in(path) if os.path.isdir(path) else path
        self._where: Dict[str, str] = {}
        self._places: Dict[str, Place] = {}
        folder = os.path.dirname(os.path.abspath(self.path))
        if self.path.endswith(SUFFIX):
            self._places = read_places(self.path)
            self._where = dict.fromkeys(self._places, self.path)
        elif self.path.endswith(".json"):
            for name, shard in _weight_map(self.path).items():
                if os.path.basename(shard) != shard:
                    raise CaptureFormatError(
                        f"the shard {shard!r} is no file beside the index", where=self.path, hint="write the index again"
                    )
                self._where[name] = os.path.join(folder, shard)
        elif self.path.endswith(".safetensors"):
            self._where = dict.fromkeys(TensorFile(self.path).entries, self.path)
        else:
            raise UsageError(
                "streaming reads the reference's weights from safetensors",
                where=path,
                hint="write them so: paralign convert weights SRC DST",
            )

    def load(self, adapter: "Adapter", module: Any, prefix: str) -> None:
        """Load what the checkpoint holds under a prefix into a module.

        A file is mapped only meanwhile.

        Raises:
            CaptureFormatError: a tensor of the module is not there.
        """
        wanted: Dict[str, List[str]] = defaultdict(list)
        for entry in adapter.state(module):
            if entry.persistent and entry.shared is None:
                wanted[self._file_of(prefix + entry.name)].append(entry.name)
        for file, names in wanted.items():
            values: Dict[str, Typed]
            if self._places:
                values = {name: read_tensor(self._places[prefix + name]) for name in names}
            else:
                shard = TensorFile(file)
                values = {name: shard.tensor(prefix + name) for name in names}
            adapter.load_state(module, values)

    def _file_of(self, name: str) -> str:
        if name not in self._where:
            raise CaptureFormatError(
                f"the checkpoint holds no tensor {name!r}", where=self.path, hint="name the checkpoint that belongs to build_model()"
            )
        return self._where[name]


def _index_in(folder: str) -> str:
    found = sorted(name for name in os.listdir(folder) if name.endswith((".safetensors.index.json", ".safetensors")))
    first = [name for name in found if name.endswith(".json")] or found
    if len(first) != 1:
        raise UsageError(f"the folder holds {len(first)} checkpoints", where=folder, hint="name the file of the one that is meant")
    return os.path.join(folder, first[0])


def _weight_map(path: str) -> Dict[str, str]:
    with open_regular(Path(path)) as file:
        data = file.read(INDEX.value + 1)
    INDEX.check(len(data), "the index has at least", path)
    try:
        found = json.loads(data.decode("utf-8"))["weight_map"]
        return {str(name): os.fspath(shard) for name, shard in found.items()}
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError) as fault:
        raise CaptureFormatError(f"this is no index of shards: {fault!r}", where=path, hint="name another file") from fault


def build(adapter: "Adapter", make: Callable[[], Any], wanted: str) -> Tuple[Any, List[str]]:
    """The model without memory for weights, and the paths of its blocks.

    Args:
        adapter: of the model's framework.
        make: builds the model.
        wanted: path of the list of blocks; '' for the list whose modules hold most of the model.

    Raises:
        UsageError: the framework cannot, or there is no such list.
    """
    if not isinstance(adapter, Lazy):
        raise UsageError(f"models of {adapter.name} cannot be streamed", hint="leave out [model] streaming")
    with adapter.empty():
        model = make()
    lists: Dict[str, List[str]] = defaultdict(list)
    kinds: Dict[str, str] = {}
    for path, module in adapter.modules(model):
        found = _NUMBERED.fullmatch(path)
        if found is not None:
            lists[found.group(1)].append(path)
            kinds[path] = type(module).__name__
    if wanted:
        if wanted not in lists:
            told = "no list of modules is called so"
            raise UsageError(told, where=f"[model] blocks = {wanted!r}", hint=f"lists: {', '.join(lists) or 'none'}")
        return model, lists[wanted]
    sizes = _sizes(adapter, model)
    alike = {name: paths for name, paths in lists.items() if len(paths) > 1 and len({kinds[path] for path in paths}) == 1}
    if not alike:
        raise UsageError("the model has no list of repeated modules", hint="set [model] blocks, or leave out streaming")
    return model, max(alike.values(), key=lambda paths: sum(sizes.get(path, 0) for path in paths))


def _sizes(adapter: "Adapter", model: Any) -> Dict[str, int]:
    """Path of a module -> elements of the parameters in it and below."""
    sizes: Dict[str, int] = defaultdict(int)
    for entry in adapter.state(model):
        count = 1
        for length in entry.tensor.shape:
            count *= int(length)
        parts = entry.owner.split(".")
        for depth in range(1, len(parts) + 1):
            sizes[".".join(parts[:depth])] += count
    return sizes


def unit_of(side: "SideDescription", make: Callable[[], Any]) -> Callable[[], Any]:
    """``build_model()`` of one unit: the part of the model, with the checkpoint's weights.

    Without a checkpoint, with its own.
    """

    def built() -> Any:
        adapter: Any = load(side.framework)
        model, blocks = build(adapter, make, side.blocks)
        if side.unit == SHELL:
            for path in blocks:
                adapter.put(model, path, adapter.through(_first))
            part, prefix = model, ""
        else:
            part, prefix = dict(adapter.modules(model))[side.unit], f"{side.unit}."
        adapter.fill(part)
        if side.checkpoint:
            Shards(side.checkpoint).load(adapter, part, prefix)
        return part

    return built


def _first(*values: Any, **named: Any) -> Any:
    """What a block of the shell does."""
    return values[0] if values else next(iter(named.values()))


class _Enough(Exception):
    """The last block that is asked for has been reached."""


def streamed(session: "Session", writer: "CaptureWriter", options: Stream, values: "Dict[str, Capture]") -> Streamed:
    """Run the model block by block up to the last block that is asked for.

    What these blocks are called with is recorded under ``block.N``.

    Without a checkpoint nothing is computed by blocks: what the first is called with, beside the values that go through, needs none.
    """
    adapter: Any = session.adapter
    model, blocks = build(adapter, session.function("build_model"), options.blocks)
    modules = dict(adapter.modules(model))
    held = [modules[path] for path in blocks]
    answer = Streamed(blocks, [_kind(adapter, module, number) for number, module in enumerate(held)])
    if not options.record:
        return answer
    shards = Shards(options.checkpoint) if options.checkpoint else None

    def reached(number: int, *given: Any, **named: Any) -> Any:
        if number in options.record:
            session.save_tree(writer, f"block.{number}", _arguments(held[number], given, named), role="input")
        if number == max(options.record):
            raise _Enough
        if shards is None:
            return _first(*given, **named)
        adapter.fill(held[number])
        shards.load(adapter, held[number], f"{blocks[number]}.")
        adapter.train(held[number], "eval")
        return _handed_on(adapter, held[number], blocks[number], given, named)

    for number, path in enumerate(blocks):
        adapter.put(model, path, adapter.through(_bound(reached, number)))
    adapter.fill(model)
    if shards is not None:
        shards.load(adapter, model, "")
    adapter.train(model, "eval")
    session.seed()
    with adapter.no_grad(), suppress(_Enough):
        session.call(session.tree(values["inputs"], "inputs", NATIVE), model)
    return answer


def _handed_on(adapter: Any, block: Any, path: str, given: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
    """What a block makes; its weights are let go.

    Raises:
        UsageError: it is more than one tensor.
    """
    result = block(*given, **named)
    adapter.drop(block)
    if not adapter.is_tensor(result):
        raise UsageError(
            f"block {path} returns a {type(result).__name__}, and streaming hands on one tensor",
            where=path,
            hint="have the block return its hidden states alone, or check a smaller model without streaming",
        )
    return result


def free_running(session: "Session", writer: "CaptureWriter", options: FreeRun, values: "Dict[str, Capture]") -> Ran:
    """Run all blocks on what the side itself computes; record the model's outputs of each run."""
    answer = Ran()
    for run in options.runs:
        attempt_run(answer, run, lambda run=run: _run_freely(session, writer, options, values["inputs"], run))  # type: ignore[misc] # bound
    return answer


def _run_freely(session: "Session", writer: "CaptureWriter", options: FreeRun, inputs: "Capture", run: str) -> None:
    """One pass, of a model of its own: a layer whose weights were let go stays so in Paddle."""
    adapter: Any = session.adapter
    model, blocks = build(adapter, session.function("build_model"), options.blocks)
    modules = dict(adapter.modules(model))
    shards = Shards(options.checkpoint)

    def prepared(module: Any, prefix: str) -> None:
        adapter.fill(module)
        shards.load(adapter, module, prefix)
        if run == DOUBLE:
            adapter.cast(module, DOUBLE)
        adapter.train(module, "eval")

    def reached(number: int, *given: Any, **named: Any) -> Any:
        path = blocks[number]
        prepared(modules[path], f"{path}.")
        return _handed_on(adapter, modules[path], path, given, named)

    for number, path in enumerate(blocks):
        adapter.put(model, path, adapter.through(_bound(reached, number)))
    prepared(model, "")
    session.seed()
    with adapter.no_grad():
        session.save_tree(writer, "output", session.call(session.tree(inputs, "inputs", run), model), run=run)


def _bound(act: Callable[..., Any], number: int) -> Callable[..., Any]:
    def call(*given: Any, **named: Any) -> Any:
        return act(number, *given, **named)

    return call


def _arguments(module: Any, given: Tuple[Any, ...], named: Dict[str, Any]) -> Any:
    """What a block is called with, as a tree: all by position, or all by name.

    Options that are None are left out.
    """
    if not named:
        return tuple(given)
    signature = inspect.signature(module.forward)
    found: Dict[str, Any] = {}
    for name, value in signature.bind(*given, **named).arguments.items():
        parameter = signature.parameters[name]
        if parameter.kind is parameter.VAR_POSITIONAL:
            raise UsageError(
                f"blocks of {type(module).__name__} are called with *{name} and with keywords: that cannot be handed on",
                hint="give the block's forward names for all that it takes",
            )
        inner = value if parameter.kind is parameter.VAR_KEYWORD else {name: value}
        found.update({key: each for key, each in inner.items() if each is not None and not _is_default(each, parameter.default)})
    return found


def _is_default(value: Any, default: Any) -> bool:
    """Whether an option is what it is without being given."""
    if not isinstance(value, (bool, int, float, str)):
        return False
    return type(value) is type(default) and bool(value == default)


def _setting(value: Any) -> str:
    """A setting as text: plain values, lists of them, functions by their names.

    '' of all else.
    """
    value = unboxed(value)
    if value is None or isinstance(value, (bool, int, float, str)):
        return repr(value)
    if isinstance(value, (tuple, list)):
        inner = [_setting(item) for item in value]
        return f"[{', '.join(inner)}]" if all(inner) else ""
    name = getattr(value, "__qualname__", "")
    if callable(value) and name:
        return f"{getattr(value, '__module__', '')}.{name}"
    return ""


def _kind(adapter: "Adapter", block: Any, number: int) -> str:
    """A digest that tells kinds of blocks apart.

    It covers classes, settings, shapes of parameters and values of buffers, wherever they lie inside.
    """
    digest = hashlib.sha256()
    for path, module in adapter.modules(block):
        digest.update(f"{path} {type(module).__qualname__}\n".encode())
        for name, value in sorted(vars(module).items()):
            own = value == number and not isinstance(value, bool) and _NUMBER.search(name) is not None
            told = "" if own or name in _BOOKKEEPING else _setting(value)
            if told:
                digest.update(f"  {name} {told}\n".encode())
    for entry in adapter.state(block):
        digest.update(f"{entry.name} {tuple(entry.tensor.shape)}\n".encode())
        content: "Optional[Typed]" = adapter.to_array(entry.tensor) if entry.role == "buffer" else None
        if content is not None:
            digest.update(content.array.tobytes())
    return digest.hexdigest()[:16]
