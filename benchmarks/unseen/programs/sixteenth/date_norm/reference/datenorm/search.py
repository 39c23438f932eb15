"""Beam search, one source at a time."""
import torch

from .vocabulary import BOS, EOS, PAD, UNK


def length_penalty(length, alpha):
    return ((5.0 + length) / 6.0) ** alpha


@torch.no_grad()
def beam_search(model, source, beam, alpha, max_length):
    """The best finished hypothesis and its score: log probability over the length penalty of the emitted symbols."""
    memory, mask = model.encode(source[None])
    alive, finished = [([BOS], 0.0)], []
    for _ in range(max_length):
        prefixes = torch.tensor([prefix for prefix, _ in alive])
        count = len(alive)
        logits = model.decode(prefixes, memory.expand(count, -1, -1), mask.expand(count, -1, -1, -1))[:, -1]
        logits[:, [PAD, BOS, UNK]] = float("-inf")
        log_p = logits.log_softmax(dim=-1)
        total = log_p + torch.tensor([score for _, score in alive], dtype=log_p.dtype)[:, None]
        scores, places = total.flatten().topk(2 * beam)
        extended = []
        for score, place in zip(scores.tolist(), places.tolist()):
            prefix, symbol = alive[place // total.shape[1]][0], place % total.shape[1]
            if symbol == EOS:
                finished.append((score / length_penalty(len(prefix), alpha), prefix[1:]))
            else:
                extended.append((prefix + [symbol], score))
        alive = extended[:beam]
        if len(finished) >= beam:
            break
    for prefix, score in alive:
        finished.append((score / length_penalty(len(prefix) - 1, alpha), prefix[1:]))
    score, ids = max(finished, key=lambda entry: entry[0])
    return ids, score
