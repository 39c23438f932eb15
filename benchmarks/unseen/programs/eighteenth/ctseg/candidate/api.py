from . import inference, objectives, training, volumes
from .nets import VolumeNet


def build_model():
    return VolumeNet()


def build_dataset(split):
    return volumes.PatchSet(split)


def build_dataloader(split):
    return volumes.batches(split)


def transforms(split):
    return volumes.pipeline(split)


def loss(outputs, labels):
    return objectives.supervise(outputs, labels)


def metric(outputs, labels):
    return objectives.mask_scores(outputs, labels)


def build_optimizer(model):
    return training.make_optimizer(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    return training.one_step(model, optimizer, batch)


def predict(path, model):
    return inference.segment(path, model)
