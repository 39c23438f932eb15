"""Convert the weights as the guides do it by hand; ``paralign convert weights`` does the same without knowing the model's names.

python torch2paddle.py
"""

from pathlib import Path

import paddle
import torch

PROJECT = Path(__file__).resolve().parents[1]
LINEAR = ("hidden.weight", "classifier.weight")


def convert(source, target):
    state = {}
    for name, tensor in torch.load(source, weights_only=True).items():
        if name.endswith("num_batches_tracked"):
            continue
        values = tensor.T if name in LINEAR else tensor
        print(f"{name}: {tuple(tensor.shape)} -> {tuple(values.shape)}")
        state[name.replace("running_mean", "_mean").replace("running_var", "_variance")] = paddle.to_tensor(values.contiguous().numpy())
    paddle.save(state, str(target))


if __name__ == "__main__":
    convert(PROJECT / "mobilenet_v3_small.pth", PROJECT / "mobilenet_v3_small.pdparams")
