"""A program that runs a model as its user would, without anything of paralign.

It is written for the interpreter of a side, into a folder of its own, and leaves what it computed there. Its file and its folder have
names that are drawn.
"""

from __future__ import annotations

import json
import re
import secrets
import shlex
import sys
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from paralign.dtypes import RAW, widen

if TYPE_CHECKING:
    from pathlib import Path

    from paralign.dtypes import Typed
    from paralign.run.project import SideSettings

#: names that users give to such programs
NAMES = ("evaluate", "predict", "try_model", "run_model", "example", "show", "outputs", "compare_runs", "main", "infer")

#: files in the folder beside the program: what it reads, what it leaves, how it ended
ARRAYS, SETTINGS, OUTPUTS, GRADIENTS, LOG, STATUS = "arrays.npz", "settings.json", "outputs", "gradients", "log.txt", "status.txt"

_HEAD = """\
import importlib
import importlib.util
import inspect
import json
import os
import random
import sys
from collections.abc import Mapping

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path[:] = [folder for folder in sys.path if os.path.abspath(folder) != HERE]

import numpy as np

settings = json.load(open(os.path.join(HERE, "settings.json")))
arrays = np.load(os.path.join(HERE, "arrays.npz"))
"""

_TAIL = """

def program():
    sys.pycache_prefix = os.path.join(HERE, "cache")
    if settings["shadowed"]:
        try:
            importlib.import_module(settings["stem"])
        except ImportError:
            pass
    for folder in settings["folders"]:
        if folder in sys.path:
            sys.path.remove(folder)
        sys.path.insert(0, folder)
    name, path = settings["name"], settings["path"]
    if name:
        found = importlib.import_module(name)
        if os.path.realpath(getattr(found, "__file__", None) or "") == os.path.realpath(path):
            return found
    name = settings["stem"]
    while name in sys.modules or not name.isidentifier():
        name = "model_" + "".join(each if each.isalnum() else "_" for each in name)
    spec = importlib.util.spec_from_file_location(name, path)
    found = importlib.util.module_from_spec(spec)
    sys.modules[name] = found
    spec.loader.exec_module(found)
    return found


def seeded(seed):
    start(seed, settings["device"])
    random.seed(seed)
    np.random.seed(seed % 2**32)


def given(entry):
    def build(shape):
        if "leaf" in shape:
            found = entry["leaves"][shape["leaf"]]
            return found["text"] if "text" in found else tensor(arrays[found["array"]], found["dtype"])
        if "list" in shape:
            return [build(each) for each in shape["list"]]
        if "tuple" in shape:
            return tuple(build(each) for each in shape["tuple"])
        return {key: build(each) for key, each in shape["dict"].items()} if "dict" in shape else None

    return build(entry["tree"])


def fits(signature, *arguments, **keywords):
    try:
        signature.bind(*arguments, **keywords)
    except TypeError:
        return False
    return True


def call(model, inputs):
    if not isinstance(inputs, (dict, tuple, list)):
        return model(inputs)
    apart = ((), inputs) if isinstance(inputs, dict) else (inputs, {})
    try:
        signature = inspect.signature(getattr(model, "forward", model))
    except (TypeError, ValueError):
        return model(*apart[0], **apart[1])
    if not fits(signature, *apart[0], **apart[1]) and fits(signature, inputs):
        return model(inputs)
    return model(*apart[0], **apart[1])


def parts(value):
    if isinstance(value, Mapping):
        return [(str(key), each) for key, each in value.items()]
    if isinstance(value, tuple) and hasattr(value, "_fields"):
        return list(zip(value._fields, value))
    if isinstance(value, (list, tuple)):
        return [(str(number), each) for number, each in enumerate(value)]
    if hasattr(value, "__dataclass_fields__") and not isinstance(value, type):
        return [(name, getattr(value, name)) for name in value.__dataclass_fields__]
    return None


def collect(value, path=""):
    array = array_of(value)
    if array is None and isinstance(value, (bool, int, float, complex, np.ndarray, np.generic)):
        array = np.asarray(value)
    if array is not None:
        return {path: array}
    found = {}
    for name, each in parts(value) or ():
        found.update(collect(each, path + "." + name if path else name))
    return found


def first_tensor(value):
    if isinstance(value, dict) and "loss" in value:
        return value["loss"]
    while array_of(value) is None:
        value = parts(value)[0][1]
    return value


def save(name, tables):
    values, names = {}, {}
    for table, found in tables.items():
        names[table] = {}
        for key, array in found.items():
            names[table][key] = None if array is None else "value%d" % len(values)
            if array is not None:
                values[names[table][key]] = np.array(array)
    np.savez(os.path.join(HERE, name + ".npz"), **values)
    with open(os.path.join(HERE, name + ".json"), "w") as file:
        json.dump(names, file)


def outputs(model, entry):
    seeded(settings["seed"])
    try:
        with without_gradients():
            return collect(call(model, given(entry)))
    except Exception:
        seeded(settings["seed"])
        return collect(call(model, given(entry)))


def step(module, model, seed):
    seeded(seed)
    forget(model)
    loss = module.loss(call(model, given(settings["batch"]["inputs"])), given(settings["batch"]["labels"]))
    differentiate(first_tensor(loss))
    dense = {name: (each, None if each is None else array_of(each)) for name, each in gradients(model).items()}
    return {name: array for name, (each, array) in dense.items() if each is None or array is not None}


def fill(model):
    missing = load(model, {name: (arrays[each["array"]], each["dtype"]) for name, each in settings["weights"].items()})
    if missing:
        sys.exit("no place for the weights " + ", ".join(missing))


def sourceless():
    for module in list(sys.modules.values()):
        file = getattr(module, "__file__", None)
        if isinstance(file, str) and file.endswith(".pyc") and any(file.startswith(os.path.join(each, "")) for each in settings["folders"]):
            yield file


def main():
    module = program()
    seeded(settings["seed"])
    model = on_device(module.build_model(), settings["device"])
    fill(model)
    evaluate(model)
    found = {name: outputs(model, entry) for name, entry in settings["inputs"].items()}
    save("outputs", found)
    if settings["again"]:
        fill(model)
        seeded(settings["seed"])
        try:
            again = collect(call(model, given(settings["inputs"]["0"])))
        except Exception:
            again = found["0"]
        save("outputs", dict(found, again=again))
    if settings["batch"]:
        tables = {}
        for mode in settings["batch"]["modes"]:
            fill(model)
            differentiable(model) if mode == "eval" else train(model)
            tables[mode] = step(module, model, settings["seed"])
            if mode == "train":
                fill(model)
                tables["repeated"] = step(module, model, settings["seed"] + 1)
        save("gradients", tables)
    if list(sourceless()):
        sys.exit("compiled code without its source: " + ", ".join(sourceless()))


main()
"""


@dataclass
class Plain:
    """What a plain program is given.

    Args:
        side: whose model it runs.
        folders: that lead its path, the last first.
        functions: of the framework (:attr:`paralign.adapters.profile.Profile.program`).
        seed: what random numbers begin with.
        weights: name -> value of the model's state.
        inputs: number of a set -> tree and leaves.
        batch: ``inputs``, ``labels`` and ``modes`` of one training step; None without.
    """

    side: SideSettings
    functions: str
    seed: int
    weights: dict[str, Typed]
    inputs: dict[str, Any] = field(default_factory=dict)
    batch: dict[str, Any] | None = None

    @property
    def is_differentiable(self) -> bool:
        """Whether gradients are known.

        The first inputs are then run with gradients kept too.
        """
        return re.search(r"^(def )?gradients\b", self.functions, re.MULTILINE) is not None

    def write(self, folder: Path) -> Path:
        """Write the program and what it reads.

        Gives the script that runs it and notes how it ended.
        """
        arrays: dict[str, Any] = {}
        told = {
            "folders": list(dict.fromkeys([str(self.side.module.parent), str(self.side.root)])),
            "name": self._dotted(),
            "stem": self.side.module.stem,
            "shadowed": self.side.module.stem in sys.stdlib_module_names,
            "path": str(self.side.module),
            "device": self.side.device,
            "seed": self.seed,
            "weights": {name: _kept(arrays, value) for name, value in self.weights.items()},
            "inputs": {name: _tree(arrays, entry) for name, entry in self.inputs.items()},
            "again": self.is_differentiable,
            "batch": self._batch(arrays),
        }
        with (folder / ARRAYS).open("wb") as file:
            np.savez(file, **arrays)
        (folder / SETTINGS).write_text(json.dumps(told), encoding="utf-8")
        program = folder / f"{secrets.choice(NAMES)}.py"
        program.write_text(_HEAD + self.functions + _TAIL, encoding="utf-8")
        script, status = folder / "run.sh", folder / STATUS
        paths = [self.side.python, str(program), str(folder / LOG), f"{status}.new", str(status)]
        python, source, log, new, kept = map(shlex.quote, paths)
        script.write_text(f"{python} {source} > {log} 2>&1 < /dev/null\necho $? > {new}\nmv {new} {kept}\n", encoding="utf-8")
        return script

    def _batch(self, arrays: dict[str, Any]) -> dict[str, Any] | None:
        if self.batch is None:
            return None
        return {key: value if key == "modes" else _tree(arrays, value) for key, value in self.batch.items()}

    def _dotted(self) -> str:
        """The name by which the module is imported; '' where it is none, or one of Python's own."""
        if not self.side.module.is_relative_to(self.side.root):
            return ""
        parts = self.side.module.relative_to(self.side.root).with_suffix("").parts
        if not all(part.isidentifier() for part in parts) or parts[0] in sys.stdlib_module_names:
            return ""
        return ".".join(parts)


def _kept(arrays: dict[str, Any], value: Typed) -> dict[str, str]:
    key = f"array{len(arrays)}"
    arrays[key] = widen(value).astype(np.float32) if value.dtype in RAW else value.array
    return {"array": key, "dtype": value.dtype}


def _tree(arrays: dict[str, Any], entry: Any) -> dict[str, Any]:
    tree, leaves = entry
    found = {path: {"text": leaf} if isinstance(leaf, str) else _kept(arrays, leaf) for path, leaf in leaves.items()}
    return {"tree": tree, "leaves": found}
