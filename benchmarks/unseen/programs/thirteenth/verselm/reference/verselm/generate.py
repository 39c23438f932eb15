import torch
from torch.nn import functional as F

from .tokenizer import BOS, EOS, PAD


@torch.no_grad()
def line_scores(model, tokenizer, lines, max_len):
    """Mean negative log-likelihood of each line."""
    values = []
    for line in lines:
        ids = torch.tensor([BOS, *tokenizer.encode(line), EOS][: max_len + 1])
        logits = model(ids[None, :-1])["logits"][0]
        values.append(F.cross_entropy(logits, ids[1:], reduction="mean"))
    return torch.stack(values)


@torch.no_grad()
def greedy(model, tokenizer, line, count, max_len):
    ids = [BOS, *tokenizer.encode(line)]
    for _ in range(count):
        logits = model(torch.tensor([ids[-max_len:]]))["logits"][0, -1]
        logits[[PAD, BOS]] = float("-inf")
        ids.append(int(logits.argmax()))
        if ids[-1] == EOS:
            break
    return tokenizer.decode(ids)
