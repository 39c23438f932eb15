import torch


def scores(outputs, labels):
    score = outputs["logp"].masked_fill(~labels["legal"], float("-inf"))
    bid = labels["bid"].long().unsqueeze(1)
    rank = (score > score.gather(1, bid)).sum(1) + 1
    expected = torch.sigmoid(outputs["tricks"]).sum(1)
    return {
        "top1": (rank == 1).double().mean().item(),
        "top3": (rank <= 3).double().mean().item(),
        "mrr": (1.0 / rank.double()).mean().item(),
        "trick_error": (expected - labels["tricks"].to(expected.dtype)).abs().mean().item(),
    }
