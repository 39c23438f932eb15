from . import conll_score, learn
from .corpus import LETTERS, TAGS, TOKENS, Corpus, batches
from .nets import SequenceLabeller


def build_model():
    return SequenceLabeller(len(TOKENS) + 2, len(LETTERS) + 2, len(TAGS))


def loss(outputs, labels):
    return learn.masked_cross_entropy(outputs, labels)


def metric(outputs, labels):
    return conll_score.evaluate(outputs.argmax(axis=-1).numpy(), labels.numpy())


def build_optimizer(model):
    return learn.adamw(model)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    ids, letters, lengths, tags = batch
    value = loss(model(ids, letters, lengths), tags)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return value


def build_dataset(split):
    return Corpus(split)


def build_dataloader(split):
    return batches(split)
