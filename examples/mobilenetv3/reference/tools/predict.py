"""Tell what a picture shows:  python tools/predict.py --img data/val/china/00.png."""

import argparse
import sys
from pathlib import Path

import torch

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import reference
from mobilenetv3.model import MobileNetV3Small


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--img", type=Path, required=True, help="the picture")
    parser.add_argument(
        "--weights", type=Path, default=reference.PROJECT / "mobilenet_v3_small.pth", help="prepare.py makes those of the example"
    )
    args = parser.parse_args()
    for path in (args.img, args.weights):
        if not path.is_file():
            parser.error(f"{path} is not there")
    model = MobileNetV3Small()
    model.load_state_dict(torch.load(args.weights, weights_only=True))
    found = reference.predict(args.img, model)
    print(f"class_id: {found['class_id']}, prob: {float(found['probabilities'].max()):.6f}, class_name: {found['class_name']}")


if __name__ == "__main__":
    main()
