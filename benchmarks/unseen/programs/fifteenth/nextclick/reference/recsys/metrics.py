import torch


@torch.no_grad()
def ranking_metrics(logits, labels, k):
    """Rank of the held-out click among the user's fixed negatives."""
    last = logits[:, -1]
    target = labels["target"][:, -1:]
    negatives = labels["negatives"][:, -1]
    pos = last.gather(1, target)
    neg = last.gather(1, negatives)
    usable = (negatives != target) & (negatives != 0)
    rank = ((neg > pos) & usable).sum(dim=1).double()
    hit = rank < k
    gain = torch.where(hit, 1.0 / torch.log2(rank + 2.0), torch.zeros_like(rank))
    return {
        f"hr@{k}": hit.double().mean().item(),
        f"ndcg@{k}": gain.mean().item(),
        "mrr": (1.0 / (rank + 1.0)).mean().item(),
    }
