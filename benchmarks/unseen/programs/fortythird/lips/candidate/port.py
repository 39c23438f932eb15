"""The lip reader in Paddle."""
import os

import paddle
from paddle import nn
from paddle.nn.utils import clip_grad_norm_

from . import alphabet, marks, strips
from .order import Guess, Order
from .vision import Eyes
from .writer import Writer

MEMORY = 10


class Lips(nn.Layer):
    def __init__(self):
        super().__init__()
        self.eyes, self.order = Eyes(), Order(16, MEMORY)
        self.guess = Guess(2 * MEMORY, len(strips.PEOPLE))
        self.writer = Writer(2 * MEMORY)

    def watch(self, clip, lengths):
        there = (paddle.arange(clip.shape[2]).unsqueeze(0) < lengths.unsqueeze(1)).astype(clip.dtype)
        return self.order(self.eyes(clip, there), lengths, there), there

    def forward(self, clip, lengths, given):
        seen, there = self.watch(clip, lengths)
        odds, gazes = self.writer(seen, there, given)
        return {"letters": odds, "looked": gazes, "speaker": self.guess(seen, there), "lengths": lengths}


def build_model():
    return Lips()


def build_dataset(split):
    return strips.Strips(split)


def build_dataloader(split):
    return strips.feed(split)


def loss(outputs, labels):
    return marks.objective(outputs, labels)


def metric(outputs, labels):
    return marks.marks(outputs, labels)


def halves(model):
    """(the parameters of the writer, all others)"""
    writer = model.writer.parameters()
    own = {p.name for p in writer}
    return writer, [p for p in model.parameters() if p.name not in own]


def build_optimizer(model):
    writer, rest = halves(model)
    rate = paddle.optimizer.lr.CyclicLR(base_learning_rate=0.004, max_learning_rate=0.02, step_size_up=6,
                                        step_size_down=10, mode="exp_range", exp_gamma=0.97)
    return paddle.optimizer.Momentum(
        learning_rate=rate, momentum=0.85, use_nesterov=True, weight_decay=1e-3,
        parameters=[{"params": rest}, {"params": writer, "learning_rate": 3.0}])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    clip, lengths, given, labels = batch
    value = loss(model(clip, lengths, given), labels)["loss"]
    value.backward()
    writer, rest = halves(model)
    clip_grad_norm_(rest, 1.0)
    clip_grad_norm_(writer, 0.5)
    optimizer.step()
    optimizer.clear_grad()
    return value


@paddle.no_grad()
def predict(path, model):
    n = int(os.path.splitext(path)[0].split("_")[-1])
    clip = paddle.to_tensor(strips.channels(path, n)).astype(model.writer.liking.dtype).unsqueeze(0)
    codes, sure, places = model.writer.spell(*model.watch(clip, paddle.to_tensor([n])))
    return {"word": alphabet.to_word(codes), "sure": sum(sure) / len(sure), "frames": places.numpy()}
