"""Functions that scripts call."""
import numpy as np
import paddle
from paddle.nn.utils import clip_grad_norm_
from scipy.io import wavfile

from . import dataset, lamb, objective
from .network import create_network
from .settings import OPTIM, TRAINING


def build_model():
    return create_network()


def build_dataset(split):
    return dataset.MixtureSet(split)


def build_dataloader(split):
    return dataset.make_loader(split)


def transforms(split):
    return list(dataset.PIPELINE)


def loss(outputs, labels):
    return objective.criterion(outputs, labels)


def metric(outputs, labels):
    return objective.scores(outputs, labels)


def build_optimizer(model):
    return lamb.create_optimizer(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    mixture, voices = batch
    objective_value = objective.criterion(model(mixture), voices)
    objective_value.backward()
    norm = clip_grad_norm_(model.parameters(), max_norm=OPTIM["max_norm"])
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": objective_value.detach(), "grad_norm": norm}


def fit(epochs=2):
    model = build_model()
    optimizer = build_optimizer(model)
    batches = build_dataloader("train")
    model.train()
    for epoch in range(epochs):
        batches.batch_sampler.epoch = epoch
        for batch in batches:
            report = train_step(model, optimizer, batch)
            build_scheduler(optimizer).step()
        print(epoch, float(report["loss"]))
    return model


class OverlapAdd:
    """Collects tapered chunks; keeps the order of the voices from one to the next."""

    def __init__(self, voices, samples, size, dtype):
        self.total = np.zeros((voices, samples), dtype)
        self.weight = np.zeros(samples, dtype)
        self.taper = (np.hanning(size) + 1e-3).astype(dtype)
        self.tail = None

    def add(self, start, voices):
        size = voices.shape[-1]
        half = size // 2
        if self.tail is not None:
            head = paddle.to_tensor(voices[None, :, :half])
            _, aligned = objective.assign(head, paddle.to_tensor(self.tail[None]))
            if not np.array_equal(aligned.numpy(), head.numpy()):
                voices = voices[::-1]
        self.tail = voices[:, half:].copy()
        self.total[:, start:start + size] += voices * self.taper
        self.weight[start:start + size] += self.taper

    def result(self, samples):
        return (self.total / self.weight)[:, :samples]


@paddle.no_grad()
def predict(path, model):
    dtype = str(model.parameters()[0].dtype).replace("paddle.", "")
    _, samples = wavfile.read(path)
    x = (samples.astype("float32") / 32768.0).astype(dtype)
    rms = max(float(np.sqrt(np.mean(x ** 2))), 1e-5)
    size = TRAINING["crop"]
    step = size // 2
    count = 1 + max(0, int(np.ceil((len(x) - size) / step)))
    length = size + step * (count - 1)
    padded = np.concatenate([x * (0.1 / rms), np.zeros(length - len(x), dtype)]).astype(dtype)
    collector = OverlapAdd(2, length, size, dtype)
    for k in range(count):
        chunk = paddle.to_tensor(padded[None, k * step:k * step + size])
        collector.add(k * step, model(chunk)[0].numpy())
    voices = collector.result(len(x)) * (rms / 0.1)
    loudest = np.abs(voices).max()
    if loudest > 0.99:
        voices = voices * (0.99 / loudest)
    voices = voices.astype(dtype)
    levels = 20 * np.log10(np.sqrt(np.mean(voices ** 2, axis=1)) + 1e-8)
    return {"voices": voices, "levels_db": levels}
