"""4.3 Metric: top-1 and top-5 of both programs on the same fake image and label."""

import paddle
import torch
from common import build_paddle, build_torch, compare, fake_data, log_of
from mobilenetv3.metric import accuracy as accuracy_torch
from mobilenetv3_paddle.metric import accuracy as accuracy_paddle


def evaluate(image, labels, model, accuracy):
    model.eval()
    top1, top5 = accuracy(model(image), labels, topk=(1, 5))
    return log_of({"acc_top1": top1, "acc_top5": top5})


def test_metric():
    inputs, labels = fake_data()
    reference = evaluate(torch.tensor(inputs), torch.tensor(labels), build_torch(), accuracy_torch)
    candidate = evaluate(paddle.to_tensor(inputs), paddle.to_tensor(labels), build_paddle(), accuracy_paddle)
    return compare("metric", reference, candidate)


if __name__ == "__main__":
    raise SystemExit(0 if test_metric() else 1)
