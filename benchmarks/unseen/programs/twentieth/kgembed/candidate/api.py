import numpy as np
import paddle
import paddle.nn.functional as F

from .adagrad import assemble
from .dataset import VOCAB, Queries, reader
from .network import LinkPredictor
from .ranking import cubic_penalty, margin_loss, summary

CLIP = 0.02

build_dataset = Queries
build_dataloader = reader
loss = margin_loss
metric = summary
build_optimizer = assemble


def build_model():
    return LinkPredictor(VOCAB)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(net, optimizer, batch):
    scores = net(batch["head"], batch["rel"], batch["tails"])
    fit = margin_loss(scores, batch["labels"])
    penalty = cubic_penalty(net)
    (fit + penalty).backward()
    paddle.nn.utils.clip_grad_value_(net.parameters(), CLIP)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": fit.detach(), "n3": penalty.detach()}


def parse_query(line):
    left, kind, right = line.split("\t")
    r = VOCAB.kind(kind)
    return (VOCAB.town(right), r + VOCAB.R) if left == "?" else (VOCAB.town(left), r)


@paddle.no_grad()
def predict(path, net, top=5):
    with open(path, encoding="utf-8") as f:
        asked = np.array([parse_query(line.rstrip("\n")) for line in f])
    n = len(asked)
    everyone = paddle.arange(VOCAB.E).unsqueeze(0).tile([n, 1])
    scores = net(paddle.to_tensor(asked[:, 0]), paddle.to_tensor(asked[:, 1]), everyone)
    old = np.zeros((n, VOCAB.E), dtype=bool)
    train = VOCAB.rows["train"]
    for row, (h, r) in zip(old, asked):
        row[h] = True
        row[train[(train[:, 0] == h) & (train[:, 1] == r), 2]] = True
    scores = paddle.where(paddle.to_tensor(old), paddle.full_like(scores, float("-inf")), scores)
    value, index = paddle.topk(scores, top, axis=1)
    share = paddle.take_along_axis(F.softmax(scores, axis=1), index, axis=1)
    return dict(answers=index.numpy(), scores=value.numpy(), share=share.numpy())


def run(epochs=4):
    paddle.seed(0)
    net, data, check = build_model(), reader("train"), reader("val")
    optimizer = assemble(net)
    for epoch in range(epochs):
        data.dataset.epoch = epoch
        net.train()
        for batch in data:
            info = train_step(net, optimizer, batch)
            optimizer._learning_rate.step()
        net.eval()
        with paddle.no_grad():
            got = [(net(b["head"], b["rel"], b["tails"]), b["labels"]) for b in check]
        info.update(summary(*(paddle.concat(list(x)) for x in zip(*got))))
        print(epoch, {k: round(float(v), 4) for k, v in info.items()})


if __name__ == "__main__":
    run()
