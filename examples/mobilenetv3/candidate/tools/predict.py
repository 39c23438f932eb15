"""Tell what a picture shows:  python tools/predict.py --img data/val/china/00.png."""

import argparse
import sys
from pathlib import Path

import paddle

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
import candidate
from mobilenetv3_paddle.model import MobileNetV3


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--img", type=Path, required=True, help="the picture")
    weights = candidate.PROJECT / "mobilenet_v3_small.pdparams"
    parser.add_argument("--weights", type=Path, default=weights, help="guide/torch2paddle.py makes those of the example")
    args = parser.parse_args()
    for path in (args.img, args.weights):
        if not path.is_file():
            parser.error(f"{path} is not there")
    model = MobileNetV3()
    model.set_state_dict(paddle.load(str(args.weights)))
    found = candidate.predict(args.img, model)
    print(f"class_id: {found['class_id']}, prob: {float(found['probabilities'].max()):.6f}, class_name: {found['class_name']}")


if __name__ == "__main__":
    main()
