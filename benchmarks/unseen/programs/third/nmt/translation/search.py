import numpy as np
import paddle
import paddle.nn.functional as F

from .options import opt
from .text import BOS, EOS, PAD


def penalty(length, alpha=None):
    alpha = opt.alpha if alpha is None else alpha
    return ((5.0 + length) / 6.0) ** alpha


@paddle.no_grad()
def translate(model, ids):
    """all living hypotheses go through the network as one batch"""
    memory, prepared, valid, state = model.read(paddle.to_tensor([ids]), paddle.to_tensor([len(ids)]))
    prefixes, scores, finished = [[BOS]], np.zeros(1), []
    for _ in range(opt.max_len):
        n = len(prefixes)
        last = paddle.to_tensor([p[-1] for p in prefixes])
        logits, state, _ = model.advance(last, state, memory.tile([n, 1, 1]), prepared.tile([n, 1, 1]), valid.tile([n, 1]))
        logp = F.log_softmax(logits, axis=-1).numpy().astype("float64")
        logp[:, [PAD, BOS]] = -np.inf
        total = scores[:, None] + logp
        best = np.argsort(-total, axis=None, kind="stable")[: opt.beam]
        parents, words = np.unravel_index(best, total.shape)
        alive = []
        for parent, word in zip(parents, words):
            if word == EOS:
                hypothesis = prefixes[parent][1:]
                finished.append((hypothesis, total[parent, word] / penalty(len(hypothesis) + 1)))
            else:
                alive.append((parent, int(word)))
        if alive:
            rows = [parent for parent, _ in alive]
            scores = np.array([total[parent, word] for parent, word in alive])
            state = paddle.index_select(state, paddle.to_tensor(rows), axis=0)
        prefixes = [prefixes[parent] + [word] for parent, word in alive]
        if not prefixes or len(finished) >= opt.beam:
            break
    for prefix, score in zip(prefixes, scores):
        finished.append((prefix[1:], score / penalty(len(prefix) - 1)))
    return max(finished, key=lambda pair: pair[1])
