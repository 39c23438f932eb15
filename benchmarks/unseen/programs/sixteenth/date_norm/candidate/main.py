"""Paddle version of the date normaliser."""
import numpy as np
import paddle
import paddle.nn.functional as F

from isodate.fit import adam, report, smoothed_nll
from isodate.network import Rewriter
from isodate.text import Alphabet, Pairs, load_json, loader

config = load_json("config.json")
alphabet = Alphabet()


def build_model():
    return Rewriter(alphabet.size, alphabet.pad, **config["model"])


def build_dataset(split):
    return Pairs(alphabet, split, config["max_source"])


def build_dataloader(split):
    return loader(alphabet, split, config)


def loss(outputs, labels):
    return smoothed_nll(outputs, labels, config["loss"]["smoothing"], alphabet.pad)


def metric(outputs, labels):
    return report(outputs, labels, alphabet.pad)


def build_optimizer(model):
    return adam(model, config["model"]["width"], **config["optimizer"])


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    source, before, after = batch
    value = loss(model(source, before), after)
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": float(value), "tokens": int((after != alphabet.pad).sum())}


def best_beam(model, ids):
    """Beam search on arrays: open beams are rows of `rows` with log probabilities `sums`."""
    beam, alpha, longest = (config["decode"][key] for key in ("beam", "alpha", "max_length"))

    def normalised(value, emitted):
        return value / ((5 + emitted) / 6) ** alpha

    memory, visible = model.read(paddle.to_tensor([ids]))
    rows, sums = np.array([[alphabet.bos]]), np.zeros(1)
    done = []
    for t in range(1, longest + 1):
        n = len(rows)
        logits = model.write(paddle.to_tensor(rows), memory.tile([n, 1, 1]), visible.tile([n, 1, 1, 1]))[:, -1]
        logits[:, alphabet.pad] = -np.inf
        logits[:, alphabet.bos] = -np.inf
        logits[:, alphabet.unk] = -np.inf
        totals = F.log_softmax(logits, axis=-1).numpy() + sums[:, None]
        ranking = np.argsort(-totals, axis=None, kind="stable")[:2 * beam]
        parents, symbols = np.unravel_index(ranking, totals.shape)
        ended = symbols == alphabet.eos
        for parent in parents[ended]:
            done.append((normalised(totals[parent, alphabet.eos], t), rows[parent, 1:].tolist()))
        parents, symbols = parents[~ended][:beam], symbols[~ended][:beam]
        sums = totals[parents, symbols]
        rows = np.concatenate([rows[parents], symbols[:, None]], axis=1)
        if len(done) >= beam:
            break
    done += [(normalised(value, rows.shape[1] - 1), row[1:].tolist()) for row, value in zip(rows, sums)]
    return max(done, key=lambda item: item[0])


@paddle.no_grad()
def predict(path, model):
    found = []
    for line in open(path, encoding="utf-8"):
        text, ids = alphabet.written(line, config["max_source"])
        if text and text[0] != "#":
            score, best = best_beam(model, ids)
            found.append({"text": text, "iso": alphabet.string(best), "score": float(score)})
    return found


if __name__ == "__main__":
    paddle.seed(0)
    net = build_model()
    opt = build_optimizer(net)
    train_loader = build_dataloader("train")
    for epoch in range(config["epochs"]):
        train_loader.batch_sampler.epoch = epoch
        net.train()
        for batch in train_loader:
            log = train_step(net, opt, batch)
            opt._learning_rate.step()
        print(epoch, log)
