from . import fitting
from .digits import Digits, batches
from .flow import DigitFlow


def build_model():
    return DigitFlow()


def loss(outputs, labels):
    return fitting.objective(outputs, labels)


def metric(outputs, labels):
    bits = fitting.code_length(outputs).numpy()
    guess = outputs["class_logits"].argmax(axis=1)
    right = (guess == labels).astype("float32").mean()
    return {"bits_per_dim": float(bits.mean()), "worst": float(bits.max()), "spread": float(bits.std(ddof=1)), "accuracy": float(right)}


def build_optimizer(model):
    return fitting.adam(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    x, kinds = batch
    value = loss(model(x), kinds)["loss"]
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return value


def build_dataset(split):
    return Digits(split)


def build_dataloader(split):
    return batches(split)
