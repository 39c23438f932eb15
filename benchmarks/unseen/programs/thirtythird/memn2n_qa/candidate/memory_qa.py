"""Question answering with an end-to-end memory network, PaddlePaddle."""
import json
import re
from collections import OrderedDict
from pathlib import Path

import numpy as np
import paddle
from paddle import nn
from paddle.nn import functional as F
from paddle.optimizer import lr as sched

DATA = Path(__file__).resolve().parent.parent / "data"


def settings():
    """key -> number, sections dropped (their keys do not clash)."""
    found = re.findall(r"^(\w+)\s*=\s*(\S+)$", (DATA / "memn2n.ini").read_text(), flags=re.M)
    return {k: float(v) if "." in v else int(v) for k, v in found}


S = settings()


class Corpus:
    def __init__(self):
        self.stories = {s: [json.loads(r) for r in (DATA / f"{s}.jsonl").open()] for s in ("train", "val")}
        words = set()
        for r in self.stories["train"]:
            words.update(" ".join([*r["story"], r["question"]]).split())
        self.vocab = OrderedDict((w, i) for i, w in enumerate(sorted(words), 1))
        self.answers = np.unique([r["answer"] for r in self.stories["train"]]).tolist()

    @property
    def size(self):
        return len(self.vocab) + 1

    def ids(self, text):
        out = np.zeros(S["words"], "int64")
        for i, w in zip(range(S["words"]), text.split()):
            out[i] = self.vocab.get(w, 0)
        return out

    def features(self, r):
        mem = np.zeros([S["memory"], S["words"]], "int64")
        recent = r["story"][::-1][:S["memory"]]
        mem[:len(recent)] = [self.ids(s) for s in recent]
        return mem, self.ids(r["question"])


corpus = Corpus()


class QASet(paddle.io.Dataset):
    def __init__(self, split):
        self.rows = corpus.stories[split]

    def __getitem__(self, i):
        r = self.rows[i]
        return (*corpus.features(r), np.int64(corpus.answers.index(r["answer"])))

    def __len__(self):
        return len(self.rows)


def gaussian(**kw):
    return paddle.ParamAttr(initializer=nn.initializer.Normal(std=S["init_std"]), **kw)


class Table(nn.Layer):
    """Word table and time table of one place in the chain; sentences -> vectors."""

    def __init__(self):
        super().__init__()
        d = S["dim"]
        self.when = self.create_parameter([S["memory"], d], attr=gaussian(learning_rate=2.0))
        self.words = nn.Embedding(corpus.size, d, padding_idx=0, weight_attr=gaussian())
        n = S["words"]
        j = np.arange(1, n + 1)[:, None] / n
        k = np.arange(1, d + 1)[None] / d
        self.position = paddle.to_tensor((1 - j - k * (1 - 2 * j)).astype("float32"))

    def bag(self, ids):
        return (self.words(ids) * self.position).sum(axis=-2)

    def forward(self, memory):
        return self.bag(memory) + self.when


class MemoryNet(nn.Layer):
    def __init__(self):
        super().__init__()
        d = S["dim"]
        self.answer = nn.Linear(d, len(corpus.answers), weight_attr=gaussian(), bias_attr=False)
        self.carry = nn.Linear(d, d, bias_attr=False, weight_attr=nn.initializer.Assign(np.eye(d, dtype="float32")))
        self.chain = nn.LayerList([Table() for _ in range(S["hops"] + 1)])

    def forward(self, memory, question):
        empty = (memory == 0).all(axis=-1)
        state = self.chain[0].bag(question)
        slots = [table(memory) for table in self.chain]     # each is output of a hop and input of the next
        maps = []
        for keys, values in zip(slots, slots[1:]):
            score = paddle.bmm(keys, state.unsqueeze(-1)).squeeze(-1)
            score = paddle.where(empty, paddle.full_like(score, -np.inf), score)
            maps.append(F.softmax(score, axis=-1))
            state = paddle.bmm(maps[-1].unsqueeze(1), values).squeeze(1) + self.carry(state)
        return {"attention": paddle.stack(maps, axis=1), "logits": self.answer(state)}


def build_model():
    return MemoryNet()


def build_dataset(split):
    return QASet(split)


def build_dataloader(split):
    ds = build_dataset(split)
    order = paddle.io.RandomSampler(ds) if split == "train" else paddle.io.SequenceSampler(ds)
    return paddle.io.DataLoader(ds, batch_sampler=paddle.io.BatchSampler(sampler=order, batch_size=S["batch"]))


def loss(outputs, labels):
    last = outputs["attention"][:, -1, :]
    entropy = -(last * paddle.log(paddle.clip(last, min=1e-12))).sum(axis=-1)
    return F.cross_entropy(outputs["logits"], labels) + 0.01 * entropy.mean()


def metric(outputs, labels):
    scores, y = outputs["logits"].numpy(), labels.numpy().reshape(-1)
    mine = scores[np.arange(len(y)), y][:, None]
    place = 1 + (scores > mine).sum(axis=1)
    return {"acc": float((place == 1).mean()), "mrr": float((1 / place).mean())}


def build_optimizer(model):
    steps = sched.StepDecay(S["lr"], step_size=S["anneal_every"], gamma=S["anneal_gamma"])
    rate = sched.LinearWarmup(steps, warmup_steps=S["max_lr_warm"], start_lr=S["lr"] / 3, end_lr=S["lr"])
    # ClipGradByNorm clips every gradient by its own norm
    return paddle.optimizer.Momentum(rate, momentum=S["momentum"], parameters=model.parameters(),
                                     use_nesterov=True, grad_clip=nn.ClipGradByNorm(S["clip"]))


def build_scheduler(optimizer):
    return optimizer._learning_rate


def train_step(model, optimizer, batch):
    model.train()
    outputs = model(*batch[:-1])
    value = loss(outputs, batch[-1])
    value.backward()
    optimizer.step()
    optimizer.clear_grad()
    return dict(metric(outputs, batch[-1]), loss=float(value))


def predict(path, model):
    rows = json.loads(Path(path).read_text())
    feed = [paddle.to_tensor(np.stack(x)) for x in zip(*(corpus.features(r) for r in rows))]
    was = model.training
    model.eval()
    with paddle.no_grad():
        out = model(*feed)
    model.train() if was else None
    prob = F.softmax(out["logits"]).numpy()
    names = [corpus.answers[i] for i in prob.argmax(-1)]
    return {"support": out["attention"].argmax(axis=-1).numpy(), "confidence": prob.max(-1), "answers": ",".join(names)}
