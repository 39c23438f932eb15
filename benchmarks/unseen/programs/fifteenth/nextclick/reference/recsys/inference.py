import torch

from .data.dataset import pad_left


@torch.no_grad()
def recommend(model, history, max_len, top=10):
    model.eval()
    seq = torch.tensor([pad_left(history, max_len)], dtype=torch.long)
    scores = model(seq)[0, -1]
    scores[0] = float("-inf")
    scores[torch.tensor(sorted(set(history)), dtype=torch.long)] = float("-inf")
    prob = scores.softmax(dim=-1)
    values, ids = prob.topk(top)
    return ids.tolist(), values.numpy()
