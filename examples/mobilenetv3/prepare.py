"""Make what the example needs and git does not keep: the image folder ``data/`` and the trained weights.

    python examples/mobilenetv3/prepare.py

The images are patches of scikit-learn's two sample photographs, one a class. Training and validation patches overlap:
they are there to compare two programs, not to measure how well one generalises. The same seed gives the same files;
where they are there and what they are made from is unchanged, nothing is done.
"""

import hashlib
import json
import sys
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


def train_weights(path):
    """Train the reference for a moment, so that logits and BatchNorm statistics are those of a real model."""
    sys.path.insert(0, str(PROJECT / "reference"))
    import reference
    import torch
    from mobilenetv3 import data, model, train

    torch.set_num_threads(2)  # sums are rounded by how they are shared among threads: the same weights wherever this runs
    torch.manual_seed(SEED)
    network = model.MobileNetV3Small()
    loader = data.build_dataloader(reference.build_dataset("train"), shuffle=True, batch_size=16)
    optimizer = train.build_optimizer(network, lr=0.05)
    scheduler = train.build_scheduler(optimizer, step_size=4)
    train.train(network, loader, optimizer, scheduler, epochs=6)
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
            "outputs": digest([*(PROJECT / "data").rglob("*.png"), *PROJECT.glob(WEIGHTS.name)]),
        }
    )


def main():
    if STAMP.exists() and STAMP.read_text() == state():
        print("data/ and the weights are there and up to date")
        return
    cut_patches(PROJECT / "data")
    train_weights(WEIGHTS)
    STAMP.write_text(state())


if __name__ == "__main__":
    main()
