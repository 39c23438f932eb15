import torch


def dcg(gains, k):
    positions = torch.arange(1, gains.shape[1] + 1, dtype=gains.dtype)
    discount = 1.0 / torch.log2(positions + 1)
    return (gains * discount)[:, :k].sum(dim=1)


def evaluate(scores, relevance, k):
    """NDCG@k with gains 2 ** stars - 1, recall@k and reciprocal rank; padding comes last and counts nothing."""
    scores = scores.masked_fill(relevance < 0, float("-inf"))
    relevance = relevance.clamp(min=0).double()
    order = scores.argsort(dim=1, descending=True)
    ranked = relevance.gather(1, order)
    best = relevance.sort(dim=1, descending=True).values
    ndcg = dcg(2 ** ranked - 1, k) / dcg(2 ** best - 1, k)
    hit = ranked > 0
    recall = hit[:, :k].sum(dim=1) / hit.sum(dim=1).clamp(max=k)
    reciprocal = 1.0 / (hit.int().argmax(dim=1) + 1).double()
    return {f"ndcg@{k}": ndcg.mean(), f"recall@{k}": recall.double().mean(), "mrr": reciprocal.mean()}
