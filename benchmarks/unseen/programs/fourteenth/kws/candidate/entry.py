import paddle
from paddle.nn import functional as F

from kwsp import corpus, network, scores, signal, training
from kwsp.settings import S


def predict(path, model):
    model.eval()
    x = signal.centre(signal.read_pcm(path, S.signal.rate), S.signal.length)
    with paddle.no_grad():
        p = F.softmax(model(corpus.make_chain("val")(x)[None]), axis=-1)[0].numpy()
    best = int(p.argmax())
    word = corpus.vocabulary()[best]
    fired = word != "unknown" and p[best] > S.threshold
    return {"probs": p, "score": float(p[best]), "index": best, "fired": float(fired)}


def build_model():
    return network.from_settings(S.network, S.signal.bands, len(corpus.vocabulary()))


def build_optimizer(model):
    return training.momentum_sgd(model)


def build_scheduler(optimizer):
    return training.attach_schedule(optimizer)


def loss(outputs, labels):
    return training.smoothed_nll(outputs, labels)


def metric(outputs, labels):
    return scores.report(outputs, labels)


def transforms(split):
    return corpus.make_chain(split)


def build_dataset(split):
    return corpus.Corpus(split, corpus.make_chain(split))


def build_dataloader(split):
    return corpus.loader(split)


def train_step(model, optimizer, batch):
    return training.update(model, optimizer, batch)
