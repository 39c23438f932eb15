"""Make what the example needs and git does not keep: images and fake data in ``data/``, and the trained weights.

    python examples/mobilenetv3/prepare.py

The images are patches of scikit-learn's two sample photographs, one a class. Training and validation patches overlap:
they are there to compare two programs, not to measure how well one generalises. The same seed gives the same files;
where they are there and what they are made from is unchanged, nothing is done.
"""

import hashlib
import json
import shutil
import sys
import tarfile
from pathlib import Path

import numpy as np
from PIL import Image
from sklearn.datasets import load_sample_images

PROJECT = Path(__file__).resolve().parent
WEIGHTS = PROJECT / "mobilenet_v3_small.pth"
STAMP = PROJECT / "data" / "prepared.json"
CLASSES = ("china", "flower")
COUNTS = {"train": 40, "val": 11}
SEED = 0
LITE = 8  # images of a class and split in the small set
MADE = {".png", ".npy", ".tar"}


def cut_patches(folder):
    """Write ``folder/{train,val}/{china,flower}/NN.png``: patches of 100 to 310 pixels a side."""
    rng = np.random.default_rng(SEED)
    for name, photograph in zip(CLASSES, load_sample_images().images, strict=True):
        height, width, _ = photograph.shape
        for split, count in COUNTS.items():
            target = folder / split / name
            target.mkdir(parents=True, exist_ok=True)
            for stale in target.glob("*.png"):
                stale.unlink()
            for number in range(count):
                h, w = rng.integers(100, 311, size=2)
                top, left = rng.integers(height - h + 1), rng.integers(width - w + 1)
                Image.fromarray(photograph[top : top + h, left : left + w]).save(target / f"{number:02}.png")


def draw_lite(folder):
    """The guides' small set, ``folder/lite_data``: 8 images of each class and split, as files and as ``lite_data.tar``."""
    lite = folder / "lite_data"
    for split in COUNTS:
        for name in CLASSES:
            (lite / split / name).mkdir(parents=True, exist_ok=True)
            for path in sorted((folder / split / name).glob("*.png"))[:LITE]:
                shutil.copyfile(path, lite / split / name / path.name)
    with tarfile.open(folder / "lite_data.tar", "w") as archive:
        for path in sorted(lite.rglob("*.png")):
            entry = archive.gettarinfo(path, f"lite_data/{path.relative_to(lite).as_posix()}")
            entry.mtime, entry.uid, entry.gid, entry.uname, entry.gname, entry.mode = 0, 0, 0, "", "", 0o644
            with path.open("rb") as file:
                archive.addfile(entry, file)


def write_fake(folder):
    """The guides' fake data: one image of noise and its label."""
    rng = np.random.default_rng(SEED)
    np.save(folder / "fake_data.npy", rng.random((1, 3, 224, 224), dtype=np.float32) - 0.5)
    np.save(folder / "fake_label.npy", np.arange(1, dtype=np.int64))


def train_weights(path):
    """Train the reference for a moment, so that logits and BatchNorm statistics are those of a real model."""
    sys.path.insert(0, str(PROJECT / "reference"))
    import reference
    import torch
    from mobilenetv3 import data, model, train

    from paralign.trainlog import TrainLog

    torch.set_num_threads(2)  # sums are rounded by how they are shared among threads: the same weights wherever this runs
    torch.manual_seed(SEED)
    network = model.MobileNetV3Small()
    loader = data.build_dataloader(reference.build_dataset("train"), shuffle=True, batch_size=16)
    optimizer = train.build_optimizer(network, lr=0.05)
    scheduler = train.build_scheduler(optimizer, step_size=4)
    log = TrainLog(None, every=5, style="print")
    for epoch in range(6):
        train.train_one_epoch(network, loader, optimizer, log, epoch)
        scheduler.step()
    train.recalibrate(network, loader)
    outputs, accuracies = train.evaluate(network, reference.build_dataloader("val"), reference.metric)
    print(f"validation: {', '.join(f'{name} {float(value):.3f}' for name, value in accuracies.items())}, logits +-{outputs.std():.2f}")
    unfinished = path.with_suffix(".tmp")
    torch.save(network.state_dict(), unfinished)
    unfinished.replace(path)


def digest(paths):
    total = hashlib.sha256()
    for path in sorted(paths):
        total.update(path.name.encode() + path.read_bytes())
    return total.hexdigest()


def state():
    """Digests of what the outputs are made from and of the outputs themselves."""
    return json.dumps(
        {
            "sources": digest([PROJECT / "prepare.py", *(PROJECT / "reference").rglob("*.py")]),
            "outputs": digest([path for path in (PROJECT / "data").rglob("*") if path.suffix in MADE] + [*PROJECT.glob(WEIGHTS.name)]),
        }
    )


def main():
    if STAMP.exists() and STAMP.read_text() == state():
        print("data/ and the weights are there and up to date")
        return
    cut_patches(PROJECT / "data")
    draw_lite(PROJECT / "data")
    write_fake(PROJECT / "data")
    train_weights(WEIGHTS)
    STAMP.write_text(state())


if __name__ == "__main__":
    main()
