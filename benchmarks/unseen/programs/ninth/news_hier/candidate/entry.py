from . import f1, losses, training
from .conf import CONFIG
from .dataset import NewsDataset, get_vocabulary, make_loader
from .network import HAN


def build_model():
    return HAN(len(get_vocabulary()), len(CONFIG.loader.classes), CONFIG.model)


def build_dataset(split):
    return NewsDataset(split)


def build_dataloader(split):
    return make_loader(split)


def loss(outputs, labels):
    return losses.criterion(outputs, labels, CONFIG.loss)


def metric(outputs, labels):
    return f1.evaluate(outputs["logits"].numpy(), labels.numpy())


def build_optimizer(model):
    return training.make_optimizer(model, CONFIG.optimizer, CONFIG.schedule)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    return training.step(model, optimizer, batch, loss, CONFIG.optimizer.clip_norm)
