"""Two sharded checkpoints of the same decoder, generated tensor by tensor while they are written; faults can be planted in the candidate's.

    python benchmarks/streaming/checkpoints.py FOLDER [--faults swap,stale] [--dtype bfloat16]

The sizes are those of the environment: WIDTH, HEADS, INNER, LAYERS, WORDS. ``swap``: gate and up of block 5 (``swap=25``: of block 25)
exchanged; ``stale``: the fourth shard is of an earlier state.
"""

from __future__ import annotations

import argparse
import os
import zlib
from pathlib import Path

import numpy as np

from paralign.capture.safetensors import TensorFile
from paralign.capture.safetensors import write as write_file
from paralign.dtypes import Typed, narrow
from paralign.formats import Entry, Outgoing, write

SIZES = {"WIDTH": 64, "HEADS": 4, "INNER": 160, "LAYERS": 8, "WORDS": 100}
SWAPPED, STALE = 5, 3
EXCHANGED = {"gate_proj": "up_proj", "up_proj": "gate_proj"}


def shapes():
    """Name -> shape of every tensor of the reference, in the order of the model."""
    width, _, inner, layers, words = (int(os.environ.get(name, usual)) for name, usual in SIZES.items())
    found = {"embed_tokens.weight": (words, width)}
    for number in range(layers):
        block = f"layers.{number}."
        found[f"{block}input_layernorm.weight"] = (width,)
        found.update({f"{block}self_attn.{name}_proj.weight": (width, width) for name in "qkvo"})
        found[f"{block}post_attention_layernorm.weight"] = (width,)
        found.update({f"{block}mlp.{name}_proj.weight": (inner, width) for name in ("gate", "up")})
        found[f"{block}mlp.down_proj.weight"] = (width, inner)
    return {**found, "norm.weight": (width,), "lm_head.weight": (words, width)}


def values(name, shape):
    """What the reference's tensor of this name holds: drawn, with a seed that is its name's."""
    drawn = np.random.default_rng(zlib.crc32(name.encode())).standard_normal(shape, dtype=np.float32)
    return 1 + np.float32(0.1) * drawn if len(shape) == 1 else drawn / np.float32(shape[-1] ** 0.5)


def is_linear(name):
    return name.endswith("_proj.weight") or name.startswith("lm_head")


def held(name, side, faults, dtype, shape):
    """A tensor as one side's checkpoint has it: Paddle keeps matrices of linear layers the other way round."""
    source = name
    swapped = next((int(fault.partition("=")[2] or SWAPPED) for fault in faults if fault.startswith("swap")), None)
    if side == "candidate" and swapped is not None and name.startswith(f"layers.{swapped}.mlp."):
        part = name.split(".")[3]
        source = name.replace(part, EXCHANGED.get(part, part))
    array = values(source, shape)
    return narrow(np.ascontiguousarray(array.T) if side == "candidate" and is_linear(name) else array, dtype)


def spoil(path):
    """Put an earlier state of a shard in its place: all of its values are a hundredth less."""
    shard = TensorFile(path)
    earlier = {name: Typed(shard.tensor(name).array * np.float32(0.99), "float32") for name in shard.entries}
    path.unlink()
    write_file(path, earlier, {"format": "pt"})


def make(folder, faults=(), dtype="float32", shard=200_000):
    """Write both checkpoints below a folder; the bytes of the candidate's."""
    total = 0
    for side in ("reference", "candidate"):
        items = []
        for name, shape in shapes().items():
            stored = tuple(reversed(shape)) if side == "candidate" and is_linear(name) else shape
            entry = Entry(dtype, stored)

            def value(name=name, side=side, shape=shape) -> Typed:
                return held(name, side, faults, dtype, shape)

            items.append(Outgoing(name, entry, value))
        (folder / side).mkdir(parents=True)
        write(folder / side / "model.safetensors", items, max_shard_bytes=shard, metadata={"format": "pt"})
        if side == "candidate" and "stale" in faults:
            spoil(sorted((folder / side).glob("*.safetensors"))[STALE])
        total = sum(item.entry.nbytes for item in items)
    return total


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder", type=Path)
    parser.add_argument("--faults", default="")
    parser.add_argument("--dtype", default="float32")
    options = parser.parse_args()
    size = make(options.folder, options.faults.split(","), options.dtype, 200_000 if "WIDTH" not in os.environ else 1 << 30)
    print(f"{size / 1e9:.2f} GB each")


if __name__ == "__main__":
    main()
