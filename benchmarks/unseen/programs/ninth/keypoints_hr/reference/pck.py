"""Percentage of correct keypoints."""
import torch


def pck(predicted, labels, shares=(0.1, 0.2)):
    """Joints that lie within a share of the person's size; averaged by joint, then over the joints that occur."""
    seen = labels["weights"] > 0
    distance = torch.linalg.vector_norm(predicted - labels["joints"], dim=-1) / labels["scale"][:, None]
    result = {}
    for share in shares:
        right = ((distance <= share) & seen).sum(dim=0).double()
        count = seen.sum(dim=0).double()
        result[f"pck@{share}"] = (right / count.clamp(min=1))[count > 0].mean().item()
    result["distance"] = distance[seen].double().mean().item()
    return result
