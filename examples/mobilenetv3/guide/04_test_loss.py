"""4.4 Loss: of both programs on the same fake image and label."""

import paddle
import torch
from common import build_paddle, build_torch, compare, fake_data, log_of
from mobilenetv3_paddle.train import cross_entropy


def test_loss():
    inputs, labels = fake_data()
    torch_model, paddle_model = build_torch(), build_paddle()
    torch_model.eval()
    paddle_model.eval()
    torch_loss = torch.nn.CrossEntropyLoss()(torch_model(torch.tensor(inputs)), torch.tensor(labels))
    paddle_loss = cross_entropy(paddle_model(paddle.to_tensor(inputs)), paddle.to_tensor(labels))
    return compare("loss", log_of({"loss": torch_loss}), log_of({"loss": paddle_loss}), threshold=1e-5)


if __name__ == "__main__":
    raise SystemExit(0 if test_loss() else 1)
