import torch


@torch.no_grad()
def flow_metrics(outputs, labels):
    """EPE, strict and relaxed accuracy and the share of outliers, over all valid points."""
    flow, true, valid = outputs["flow"], labels["flow"], labels["valid"] > 0
    error = (flow - true).norm(dim=-1)[valid]
    length = true.norm(dim=-1)[valid]
    relative = error / (length + 1e-4)
    strict = (error < 0.10) | (relative < 0.10)
    relaxed = (error < 0.20) | (relative < 0.20)
    outlier = (error > 0.40) | (relative > 0.80)
    angle = torch.nn.functional.cosine_similarity(flow, true, dim=-1)[valid]
    return {
        "epe": error.mean(),
        "median": error.median(),
        "acc_strict": strict.double().mean(),
        "acc_relaxed": relaxed.double().mean(),
        "outliers": outlier.double().mean(),
        "direction": angle.mean(),
    }
