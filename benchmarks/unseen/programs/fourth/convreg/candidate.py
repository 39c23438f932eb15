"""Training of the texture classifier with PaddlePaddle; the model comes from the registry in zoo."""
import numpy as np
import paddle
import paddle.nn.functional as F
from paddle.io import DataLoader
from paddle.optimizer.lr import LRScheduler

import zoo
from zoo.ema import Averaged
from zoo.textures import Standardize, TextureFolder

ARGS = {
    "model": "hybrid_micro",
    "batch_size": 4,
    "smoothing": 0.1,
    "lr": 0.004,
    "weight_decay": 1e-4,
    "alpha": 0.9,
    "momentum": 0.9,
    "opt_eps": 1e-3,
    "ema": 0.95,
    "iters": 7,
    "warmup_epochs": 2,
    "decay_epochs": 2.4,
    "decay_rate": 0.9,
}


def build_model():
    return Averaged(zoo.create(ARGS["model"]), decay=ARGS["ema"])


def build_dataset(split):
    return TextureFolder(split)


def build_dataloader(split):
    return DataLoader(TextureFolder(split), batch_size=ARGS["batch_size"], shuffle=False)


def loss(outputs, labels):
    classes = outputs.shape[-1]
    target = F.one_hot(labels.flatten(), classes).astype(outputs.dtype)
    target = F.label_smooth(target, epsilon=ARGS["smoothing"])
    return F.cross_entropy(outputs, target, soft_label=True)


class ClassificationMetric:
    def __init__(self, k=3):
        self.k = k

    def __call__(self, logits, labels):
        order = np.argsort(-logits, axis=1, kind="stable")[:, :self.k]
        found = order == labels[:, None]
        recall = [np.mean(order[labels == c, 0] == c) for c in np.unique(labels)]
        return {"top1": float(found[:, 0].mean()), f"top{self.k}": float(found.any(axis=1).mean()), "recall": float(np.mean(recall))}


def metric(outputs, labels):
    return ClassificationMetric()(outputs.numpy(), labels.numpy().reshape(-1))


class StairsWithWarmup(LRScheduler):
    def __init__(self, lr, iters, warmup, epochs, rate):
        self.iters, self.warmup, self.epochs, self.rate = iters, warmup, epochs, rate
        super().__init__(learning_rate=lr)

    def get_lr(self):
        it = self.last_epoch
        epoch = it // self.iters
        if epoch < self.warmup:
            return self.base_lr * (0.1 + 0.9 * it / (self.warmup * self.iters))
        return self.base_lr * self.rate ** (epoch // self.epochs)


def build_optimizer(model):
    rate = StairsWithWarmup(ARGS["lr"], ARGS["iters"], ARGS["warmup_epochs"], ARGS["decay_epochs"], ARGS["decay_rate"])
    return paddle.optimizer.RMSProp(
        learning_rate=rate,
        rho=ARGS["alpha"],
        epsilon=ARGS["opt_eps"],
        momentum=ARGS["momentum"],
        parameters=model.net.parameters(),
        weight_decay=ARGS["weight_decay"],
    )


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    images, labels = batch
    value = loss(model(images), labels)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    model.absorb()
    return value.detach()


def five_crops(picture, size=24):
    far = picture.shape[0] - size
    corners = [(far // 2, far // 2)] + [(y, x) for y in (0, far) for x in (0, far)]
    standardize = Standardize()
    return np.stack([standardize(picture[y:y + size, x:x + size]) for y, x in corners])


def predict(path, model):
    net = model.shadow
    net.eval()
    crops = paddle.to_tensor(five_crops(np.load(path))).astype(net.classifier.weight.dtype)
    with paddle.no_grad():
        prob = F.softmax(net(crops), axis=-1).mean(axis=0)
    return {"label": int(prob.argmax()), "prob": prob.numpy()}
