"""How fast a data set is compared by hash, beside the speed at which the two loaders alone run.

    python benchmarks/speed/data_speed.py --samples 50000

Each side reads JPEG files of 256 by 256 pixels, crops 224 and normalises, in a process of its own, as in a check. *Alone* is the time
in which both have read all samples; *compared* that in which both have read and hashed them, and the fingerprints were compared.
"""

from __future__ import annotations

import argparse
import tempfile
import time
from multiprocessing import get_context
from pathlib import Path

import numpy as np

FILES = 256


class Pictures:
    """``count`` samples of the files in a folder."""

    def __init__(self, folder, count):
        self.files, self.count = sorted(Path(folder).glob("*.jpg")), count

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        from PIL import Image

        with Image.open(self.files[index % len(self.files)]) as image:
            pixels = np.asarray(image.convert("RGB"))[16:240, 16:240]
        scaled = (pixels.astype("float32") / 255 - np.float32([0.485, 0.456, 0.406])) / np.float32([0.229, 0.224, 0.225])
        return np.ascontiguousarray(scaled.transpose(2, 0, 1)), index % 1000


def files(folder):
    from PIL import Image

    random = np.random.RandomState(0)
    for number in range(FILES):
        coarse = random.randint(0, 256, (32, 32, 3)).astype("uint8")
        Image.fromarray(coarse).resize((256, 256)).save(Path(folder) / f"{number:04}.jpg", quality=90)


def alone(folder, count):
    data = Pictures(folder, count)
    for index in range(count):
        data[index]


def hashed(folder, count, out, side):
    from paralign.capture import CaptureWriter
    from paralign.model import Manifest
    from paralign.worker.datasets import whole
    from paralign.worker.protocol import DataSeen
    from paralign.worker.protocol.wire import encode
    from paralign.worker.sides.session import Session

    session = Session(side, {}, "numpy")
    found = whole.read(session, Pictures(folder, count), 0.0, until=float("inf"))
    with CaptureWriter(Path(out) / side, Manifest(side=side, stage="data")) as writer:
        answer = encode(DataSeen(whole=found.write(writer, "samples", count)))
        writer.manifest.settings["answer"] = answer


def timed(target, *arguments):
    """Seconds in which both sides, each in its own process, have done it."""
    context = get_context("spawn")
    began = time.perf_counter()
    sides = [context.Process(target=target, args=(*arguments, *more)) for more in (("reference",), ("candidate",)) if target is hashed]
    sides = sides or [context.Process(target=target, args=arguments) for _ in range(2)]
    for side in sides:
        side.start()
    for side in sides:
        side.join()
        if side.exitcode:
            raise SystemExit(f"a side ended with {side.exitcode}")
    return time.perf_counter() - began


def main():
    from paralign.capture import Capture
    from paralign.model import Tolerance
    from paralign.stages.data import sample_fingerprints

    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--samples", type=int, default=50_000)
    count = parser.parse_args().samples
    with tempfile.TemporaryDirectory() as folder:
        files(folder)
        loaders = timed(alone, folder, count)
        reading = timed(hashed, folder, count, folder)
        began = time.perf_counter()
        captures = [Capture.open(Path(folder) / side) for side in ("reference", "candidate")]
        found = sample_fingerprints.compare(*captures, Tolerance())
        comparing = time.perf_counter() - began
    if found is None or found.common != count or found.asked:
        raise SystemExit("the two sides were not compared whole, or not found equal")
    whole_time = reading + comparing
    print(f"{count:,} samples: loaders alone {loaders:.1f} s, compared {whole_time:.1f} s ({comparing:.1f} s of it without reading)")
    print(f"compared at {100 * loaders / whole_time:.0f} % of the loaders' speed")


if __name__ == "__main__":
    main()
