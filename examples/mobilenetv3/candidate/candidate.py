"""The candidate side: the functions that paralign calls, each handing out a part of the package ``mobilenetv3_paddle``."""

from pathlib import Path

import paddle
from mobilenetv3_paddle import data, parallel
from mobilenetv3_paddle import train as training
from mobilenetv3_paddle.breaks import broken
from mobilenetv3_paddle.metric import accuracy
from mobilenetv3_paddle.model import MobileNetV3
from paddle import nn
from paddle.nn import functional
from paddle.static import InputSpec

PROJECT = Path(__file__).resolve().parents[1]
EPOCHS = 2


def build_model():
    return MobileNetV3()  # paralign gives it the reference's weights


def build_untrained():
    return training.initialise(MobileNetV3())


def transforms(split):  # noqa: ARG001 - every split is prepared alike
    return data.preprocessing()


def build_dataset(split):
    return data.ImageFolder(PROJECT / "data" / split, transforms(split))


def build_dataloader(split):
    samples = build_dataset(split)
    if parallel.processes() == 1:
        return data.build_dataloader(samples, shuffle=split == "train")
    return parallel.training_loader(samples, batch_size=8) if split == "train" else data.build_dataloader(parallel.share(samples))


def metric(outputs, labels):
    top1, top5 = accuracy(outputs, labels)
    return {"acc_top1": top1, "acc_top5": top5}


def loss(outputs, labels):
    return training.cross_entropy(outputs, labels)


def build_optimizer(model):
    return training.build_optimizer(model)


def build_scheduler(optimizer):
    return training.scheduler_of(optimizer)


def in_double(split):
    return data.ImageFolder(PROJECT / "data" / split, [*transforms(split), lambda image: image.astype("float64")])


def train(log):
    """A short training, of ``EPOCHS`` epochs; in float64, because trained weights' gradients are so small that float32 rounds them away."""
    model = log.model(training.initialise(MobileNetV3()).to(dtype="float64"))
    optimizer = log.optimizer(training.build_optimizer(model, 0.005))
    scheduler = build_scheduler(optimizer)
    loaders = {split: data.build_dataloader(in_double(split), shuffle=split == "train", batch_size=16) for split in ("train", "val")}
    for epoch in range(log.resume(lambda stem: training.load(stem, model, optimizer)), EPOCHS):
        training.train_one_epoch(model, loaders["train"], optimizer, log, epoch)
        scheduler.step()
        log.evaluation(epoch, **training.evaluate(model, loaders["val"], metric)[1])
        log.checkpoint(epoch, lambda stem: training.save(stem, model, optimizer))


def distribute(model):
    parallel.begin()
    return parallel.wrap(model)


def evaluate(model):
    loader = build_dataloader("val")
    return parallel.averaged(training.evaluate(model, loader, metric)[1], len(loader.dataset))


def save(model, folder):
    if parallel.rank() == 0:
        paddle.save(model.state_dict(), str(Path(folder) / "model.pdparams"))


@paddle.no_grad()
def predict(path, model):
    image = data.read(path)
    for transform in data.squeezing() if broken("predict") else data.preprocessing():
        image = transform(image)
    model.eval()
    probabilities = functional.softmax(model(image.unsqueeze(0)))[0]
    class_id = int(probabilities.argmax())
    classes = build_dataset("val").classes
    class_name = classes[class_id] if class_id < len(classes) else f"unused {class_id}"
    return {"class_id": class_id, "class_name": class_name, "probabilities": probabilities}


def export(model, path):
    """Write ``path.json`` and ``path.pdiparams`` for Paddle Inference; returns ``path``."""
    model.eval()
    program = nn.Sequential(model, nn.Softmax()) if broken("export") else model
    paddle.jit.save(program, path, input_spec=[InputSpec([None, 3, 224, 224], "float32", name="image")])
    return path
