"""4.5 Backward: losses and rates of three steps on the same fake image, in eval mode, so that dropout stays off."""

import numpy as np
import paddle
import torch
from common import build_paddle, build_torch, compare, fake_data, log_of
from mobilenetv3.train import build_optimizer as optimizer_torch
from mobilenetv3_paddle.train import build_optimizer as optimizer_paddle
from mobilenetv3_paddle.train import cross_entropy

STEPS = 3
RATE = 1e-3


def train_torch(model, image, labels):
    model.eval()
    optimizer, values = optimizer_torch(model, RATE), {}
    for step in range(STEPS):
        loss = torch.nn.functional.cross_entropy(model(image), labels)
        values[f"loss_{step}"] = loss.detach()
        values[f"lr_{step}"] = np.array(optimizer.param_groups[0]["lr"])
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
    return log_of(values)


def train_paddle(model, image, labels):
    model.eval()
    optimizer, values = optimizer_paddle(model, RATE), {}
    for step in range(STEPS):
        loss = cross_entropy(model(image), labels)
        values[f"loss_{step}"] = loss.detach()
        values[f"lr_{step}"] = np.array(optimizer.get_lr())
        loss.backward()
        optimizer.step()
        optimizer.clear_grad()
    return log_of(values)


def test_backward():
    inputs, labels = fake_data()
    reference = train_torch(build_torch(), torch.tensor(inputs), torch.tensor(labels))
    candidate = train_paddle(build_paddle(), paddle.to_tensor(inputs), paddle.to_tensor(labels))
    return compare("losses", reference, candidate, threshold=1e-5)


if __name__ == "__main__":
    raise SystemExit(0 if test_backward() else 1)
