"""Beam search without repeated trigrams."""
import torch

from .text import ALPHABET, BOS, EOS, MAX_LEN, PAD, UNK


def repeats(ids, token, n=3):
    """Would `token` complete an n-gram that is already there?"""
    tail = ids[-(n - 1):] + [token]
    return any(ids[i:i + n] == tail for i in range(len(ids) - n + 1))


def penalised(logp, length, alpha=0.7):
    return logp / ((5 + length) / 6) ** alpha


def surprise(model, ids):
    """Mean negative log probability of a prompt's own characters."""
    logp = model(torch.tensor([ids[:-1]]))[0].log_softmax(-1)
    return -logp.gather(1, torch.tensor(ids[1:])[:, None]).mean().item()


def continue_prompt(model, ids, width=4, most=14, least=3):
    """Best continuation: (ids, penalised score, whether it ended by itself)."""
    start = len(ids)
    beams, done = [(0.0, list(ids))], []
    for step in range(most):
        if len(beams[0][1]) >= MAX_LEN:
            break
        logp = model(torch.tensor([b for _, b in beams]))[:, -1].log_softmax(-1)
        pool = []
        for (score, prefix), row in zip(beams, logp.tolist()):
            for token, gain in enumerate(row):
                if token in (PAD, BOS, UNK):
                    continue
                if token == EOS and step < least:
                    continue
                if token != EOS and repeats(prefix, token):
                    continue
                pool.append((score + gain, prefix + [token]))
        pool.sort(key=lambda c: (-c[0], c[1]))
        beams = []
        for score, sequence in pool[:2 * width]:
            if sequence[-1] == EOS:
                done.append((penalised(score, len(sequence) - start), sequence))
            elif len(beams) < width:
                beams.append((score, sequence))
        if len(done) >= width:
            best = max(d[0] for d in done)
            if penalised(beams[0][0], len(beams[0][1]) - start) < best:
                break                                   # the open ones do not look better any more
    ended = bool(done)
    if not ended:
        done = [(penalised(s, len(b) - start), b) for s, b in beams]
    score, sequence = max(done, key=lambda d: d[0])
    return sequence[start:], score, ended


def complete(model, text, foreign=10.0):
    ids = ALPHABET.encode(text).tolist()[:MAX_LEN - 4]
    strange = surprise(model, ids)
    unknown = sum(i == UNK for i in ids) / len(ids)
    if unknown > 0.2 or strange > foreign:
        return {"text": "", "score": 0.0, "surprise": strange, "ended": 0}
    new, score, ended = continue_prompt(model, ids)
    return {"text": ALPHABET.decode(new), "score": score, "surprise": strange, "ended": int(ended)}
