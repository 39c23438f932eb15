"""PaddlePaddle port of the crossword filler."""

import paddle
import paddle.nn.functional as F

from . import nets  # noqa: F401
from .clues import ClueSet, batches_of, read_puzzle
from .factory import SETTINGS, make
from .recipes import adamw


def build_dataset(split):
    return ClueSet(split)


def build_dataloader(split):
    return batches_of(split)


def build_model():
    return make(SETTINGS["net"], **SETTINGS["encode"])


def loss(outputs, labels):
    return make(SETTINGS["objective"])(outputs, labels)


def build_optimizer(model):
    options = dict(SETTINGS["adamw"])
    options.pop("max_norm")
    schedule = make(SETTINGS["rate"], base=options["rate"])
    return adamw(model, schedule, **options)


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    batch = dict(batch)
    labels = batch.pop("labels")
    value = loss(model(**batch), labels)
    optimizer.clear_grad()
    value.backward()
    paddle.nn.utils.clip_grad_norm_(model.parameters(), SETTINGS["adamw"]["max_norm"])
    optimizer.step()
    return value.detach()


def metric(outputs, labels):
    letters = labels["letters"]
    logp = F.log_softmax(outputs["letters"], axis=-1)
    asked = letters >= 0
    n = asked.astype(logp.dtype).sum()
    hit = paddle.logical_and(logp.argmax(-1) == letters, asked)
    near = paddle.logical_and((logp.topk(5, axis=-1)[1] == letters.unsqueeze(-1)).any(-1), asked)
    truth = paddle.take_along_axis(logp, letters.clip(min=0).unsqueeze(-1), axis=-1).squeeze(-1)
    whole = paddle.logical_or(hit, ~asked).all(axis=1)
    return {
        "slots": hit.astype(logp.dtype).sum() / n,
        "top5": near.astype(logp.dtype).sum() / n,
        "words": whole.astype(logp.dtype).mean(),
        "logp": paddle.where(asked, truth, paddle.zeros_like(truth)).sum() / n,
        "hard_mae": F.l1_loss(outputs["hard"], labels["hard"].astype(logp.dtype)),
    }


def suits(word, pattern):
    return len(word) == len(pattern) and all(p == "?" or p == c for c, p in zip(word, pattern))


@paddle.no_grad()
def predict(path, model):
    rows, batch = read_puzzle(path)
    batch["flags"] = batch["flags"].astype(model.word_position.dtype)
    out = model(**batch)
    logp = F.log_softmax(out["letters"], axis=-1).numpy()
    with open(SETTINGS["files"]["words"]) as f:
        words = [w.strip() for w in f]
    answer = {"words": [], "scores": [], "hard": out["hard"].tolist()}
    for table, row in zip(logp, rows):
        free = [j for j, c in enumerate(row["pattern"]) if c == "?"]
        score = {w: sum(float(table[j, ord(w[j]) - 65]) for j in free) / len(free) for w in words if suits(w, row["pattern"])}
        best = sorted(score, key=lambda w: (score[w], w), reverse=True)[:3]
        answer["words"].append(best)
        answer["scores"].append([score[w] for w in best])
    return answer
