"""Does a sentence follow from another? Soft labels from several annotators (PyTorch)."""
import json
import sys
import tomllib
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from entail_pt import nets, objective, optim, text  # noqa: E402

CFG = tomllib.loads((HERE / "config.toml").read_text())
ROWS = text.read_rows(HERE.parent / "data" / "pairs.csv")
TRAIN = [r for r in ROWS if r["split"] == "train"]
VOCABULARY = text.Vocabulary(CFG["text"], [s for r in TRAIN for s in (r["premise"], r["hypothesis"])])

loss = objective.make_loss(CFG["loss"])
metric = objective.metric


def build_dataset(split):
    return text.Pairs([r for r in ROWS if r["split"] == split], VOCABULARY)


def build_dataloader(split):
    pairs, cfg = build_dataset(split), CFG["loader"]
    if split == "train":
        return DataLoader(pairs, batch_sampler=text.ByLength(pairs.lengths(), cfg["batch"], cfg["seed"]))
    return DataLoader(pairs, batch_size=cfg["batch"])


def class_prior():
    """Mean share of the votes over the training pairs."""
    shares = torch.stack([labels["share"] for *_, labels in build_dataset("train")])
    return shares.mean(0)


def build_model():
    return nets.Entailment(CFG["model"], VOCABULARY.size, class_prior())


def build_optimizer(model):
    return optim.make_optimizer(model, CFG["optim"])


def build_scheduler(optimizer):
    return optim.WarmPolynomial(optimizer, CFG["optim"])


def train_step(model, optimizer, batch):
    model.train()
    *inputs, labels = batch
    optimizer.zero_grad()
    parts = loss(model(*inputs), labels)
    parts["loss"].backward()
    optim.clip_each(model.parameters(), CFG["optim"]["clip"])
    optimizer.step()
    return {name: value.item() for name, value in parts.items()}


@torch.no_grad()
def predict(path, model):
    model.eval()
    case = json.loads(Path(path).read_text())
    pairs = [VOCABULARY.pair(case["premise"], h) for h in case["hypotheses"]]
    out = model(*(torch.stack(column) for column in zip(*pairs)))
    probs = out["logits"].softmax(-1).numpy()
    limit = CFG["text"]["max_len"]
    source = (["-"] + VOCABULARY.words(case["premise"]))[:limit]
    links, verdicts = [], []
    for k, hypothesis in enumerate(case["hypotheses"]):
        words = (["-"] + VOCABULARY.words(hypothesis))[:limit]
        best = out["attention"][k].argmax(-1).tolist()
        links.append(" ".join(f"{w}>{source[best[i]]}" for i, w in enumerate(words) if i > 0))
        order = np.sort(probs[k])
        sure = order[-1] - order[-2] > 0.1
        verdicts.append(text.LABELS[int(probs[k].argmax())] + ("" if sure else "?"))
    entropy = -(probs * np.log(probs)).sum(1)
    return {"probs": probs, "entropy": entropy, "verdicts": verdicts, "links": links}
