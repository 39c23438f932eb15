"""Masked language model with T5-like relative position bias. One dictionary of parameters, plain functions."""
import math
from collections import OrderedDict

import torch
import torch.nn as nn
import torch.nn.functional as F

import text_torch as text

CFG = dict(
    d=32, heads=4, layers=3, ff=80, buckets=12, max_distance=20, eps=1e-6, drop=0.1,
    lr=1.5e-3, betas=(0.9, 0.98), adam_eps=1e-6, wd=0.05, warmup=6, total=40, batch=6,
)


def gelu(x):
    """the exact one, by the error function"""
    return 0.5 * x * (1.0 + torch.erf(x / math.sqrt(2.0)))


def bucket(rel, n, far):
    """T5's buckets: half for each direction, half of these exact, the others by logarithm. rel = key - query"""
    n //= 2
    out = (rel > 0).long() * n
    rel = rel.abs()
    exact = n // 2
    small = rel < exact
    big = exact + (torch.log(rel.clamp(min=1).float() / exact) / math.log(far / exact) * (n - exact)).long()
    big = torch.clamp(big, max=n - 1)
    return out + torch.where(small, rel, big)


def norm(p, name, x):
    return F.layer_norm(x, (x.shape[-1],), p[name + "_weight"], p[name + "_bias"], CFG["eps"])


def linear(p, name, x):
    return F.linear(x, p[name + "_weight"], p[name + "_bias"])


def attend(p, i, x, bias, keep, drop):
    h, d = CFG["heads"], CFG["d"]
    q, k, v = (linear(p, f"l{i}_{c}", x).unflatten(-1, (h, d // h)) for c in "qkv")
    s = torch.einsum("bqhe,bkhe->bhqk", q, k) / math.sqrt(d // h)
    s = s + bias
    s = s.masked_fill(~keep[:, None, None, :], -1e9)
    a = drop(torch.softmax(s, -1))
    o = torch.einsum("bhqk,bkhe->bqhe", a, v).flatten(2)
    return linear(p, f"l{i}_o", o)


def feed(p, i, x):
    gate, val = linear(p, f"l{i}_up", x).chunk(2, dim=-1)
    return linear(p, f"l{i}_down", gelu(gate) * val)


def encode(p, ids, types, drop):
    """ids, types: [B, T] -> hidden [B, T, d] (pre-norm, with a norm at the end)"""
    keep = ids != text.PAD
    x = p["tok"][ids] * math.sqrt(CFG["d"]) + p["seg"][types]
    x = drop(norm(p, "emb", x))
    T = ids.shape[1]
    pos = torch.arange(T, device=ids.device)
    b = bucket(pos[None, :] - pos[:, None], CFG["buckets"], CFG["max_distance"])
    bias = p["rel"][b].permute(2, 0, 1).unsqueeze(0)
    for i in range(CFG["layers"]):
        x = x + drop(attend(p, i, norm(p, f"l{i}_n1", x), bias, keep, drop))
        x = x + drop(feed(p, i, norm(p, f"l{i}_n2", x)))
    return norm(p, "fin", x)


def head(p, h):
    h = norm(p, "hd", gelu(linear(p, "dense", h)))
    return F.linear(h, p["tok"], p["out_bias"])


def init(vocab):
    d, f, c = CFG["d"], CFG["ff"], OrderedDict()

    def w(*shape, std=0.12):
        return torch.randn(*shape) * std

    c["tok"] = w(vocab, d, std=0.2)
    c["seg"] = w(2, d)
    c["rel"] = w(CFG["buckets"], CFG["heads"], std=0.7)
    c["emb_weight"], c["emb_bias"] = torch.ones(d), w(d, std=0.02)
    for i in range(CFG["layers"]):
        c[f"l{i}_n1_weight"], c[f"l{i}_n1_bias"] = torch.ones(d), w(d, std=0.02)
        for k in "qkvo":
            c[f"l{i}_{k}_weight"], c[f"l{i}_{k}_bias"] = w(d, d), w(d, std=0.02)
        c[f"l{i}_n2_weight"], c[f"l{i}_n2_bias"] = torch.ones(d), w(d, std=0.02)
        c[f"l{i}_up_weight"], c[f"l{i}_up_bias"] = w(2 * f, d), w(2 * f, std=0.02)
        c[f"l{i}_down_weight"], c[f"l{i}_down_bias"] = w(d, f), w(d, std=0.02)
    c["fin_weight"], c["fin_bias"] = torch.ones(d), torch.zeros(d)
    c["dense_weight"], c["dense_bias"] = w(d, d), torch.zeros(d)
    c["hd_weight"], c["hd_bias"] = torch.ones(d), torch.zeros(d)
    c["out_bias"] = w(vocab, std=0.05)
    return c


class MaskedLM(nn.Module):
    def __init__(self, vocab):
        super().__init__()
        for name, value in init(vocab).items():
            self.register_parameter(name, nn.Parameter(value))

    def forward(self, input_ids, token_type_ids):
        p = dict(self.named_parameters())
        drop = lambda t: F.dropout(t, CFG["drop"], self.training)
        hidden = encode(p, input_ids, token_type_ids, drop)
        return {"logits": head(p, hidden), "pooled": hidden[:, 0]}


VOCAB = text.Vocabulary("weather.txt")


def build_model():
    return MaskedLM(len(VOCAB))


def build_dataset(split):
    return text.MaskedPairs("weather.txt", VOCAB, split)


def build_dataloader(split):
    return torch.utils.data.DataLoader(build_dataset(split), batch_size=CFG["batch"], collate_fn=text.collate)


def loss(outputs, labels):
    logits = outputs["logits"]
    return F.cross_entropy(logits.view(-1, logits.shape[-1]), labels.view(-1), ignore_index=text.IGNORE)


def metric(outputs, labels):
    """over masked places: accuracy, accuracy among the best three, perplexity"""
    chosen = labels != text.IGNORE
    logits, gold = outputs["logits"][chosen].double(), labels[chosen]
    best = logits.topk(3, dim=-1).indices
    nll = F.cross_entropy(logits, gold)
    return {
        "acc": (best[:, 0] == gold).double().mean().item(),
        "acc3": (best == gold[:, None]).any(-1).double().mean().item(),
        "ppl": math.exp(min(nll.item(), 20.0)),
    }


def build_optimizer(model):
    plain, decayed = [], []
    for name, p in model.named_parameters():
        (plain if p.ndim == 1 or name == "rel" else decayed).append(p)
    return torch.optim.AdamW(
        [{"params": decayed, "weight_decay": CFG["wd"]}, {"params": plain, "weight_decay": 0.0}],
        lr=CFG["lr"], betas=CFG["betas"], eps=CFG["adam_eps"])


def build_scheduler(optimizer):
    def rate(step):
        if step < CFG["warmup"]:
            return (step + 1) / CFG["warmup"]
        return max(0.05, (CFG["total"] - step) / (CFG["total"] - CFG["warmup"]))
    return torch.optim.lr_scheduler.LambdaLR(optimizer, rate)


def predict(path, model):
    """the five best words for each [MASK], with their probabilities"""
    words = open(path).read().split()
    ids, types = text.encode(words, VOCAB)
    with torch.no_grad():
        out = model(torch.tensor([ids]), torch.tensor([types]))["logits"][0]
    where = [i for i, t in enumerate(ids) if t == VOCAB.index["[MASK]"]]
    logits = out[where]
    logits[:, :len(text.SPECIAL)] = -math.inf
    prob, top = torch.softmax(logits, -1).topk(5)
    return {"words": [[VOCAB.words[j] for j in row] for row in top.tolist()], "prob": prob.numpy()}
