import numpy as np
import paddle
from lm import SETTINGS, criterion, recipe, text
from lm.network import VerseNet


def build_model():
    return VerseNet(SETTINGS.model, len(text.VOCABULARY), SETTINGS.data.max_len)


def build_dataset(split):
    return text.VerseSet(split)


def build_dataloader(split):
    return text.make_loader(split)


def transforms(split):
    return text.make_transforms(split)


def loss(outputs, labels):
    return criterion.smoothed_loss(outputs["logits"], labels, SETTINGS.train.smoothing, SETTINGS.train.z_loss)


def metric(outputs, labels):
    return criterion.evaluate(outputs["logits"], labels)


def build_optimizer(model):
    return recipe.make_optimizer(model, SETTINGS.train)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def complete(model, line, count):
    ids = [text.BOS] + text.encode(line)
    while count:
        count -= 1
        window = paddle.to_tensor([ids[-SETTINGS.data.max_len :]])
        scores = model(window)["logits"][0, -1].numpy()
        scores[[text.PAD, text.BOS]] = -np.inf
        ids.append(int(scores.argmax()))
        if ids[-1] == text.EOS:
            break
    return " ".join(text.WORDS[i] for i in ids)


@paddle.no_grad()
def predict(path, model):
    lines = text.load_lines(path)
    most = SETTINGS.data.max_len + 1
    framed = [([text.BOS] + text.encode(line) + [text.EOS])[:most] for line in lines]
    return {
        "nll": criterion.mean_nll(model, framed),
        "text": [complete(model, line, 6) for line in lines],
    }
