import torch
import torch.nn.functional as F


def bpr_loss(scores, ego, relevance, temperature, penalty):
    """Each relevant book against each irrelevant one of its list; a pair counts as much as the stars of the relevant."""
    margin = (scores[:, :, None] - scores[:, None, :]) / temperature
    relevant = relevance.clamp(min=0)
    pairs = (relevance[:, :, None] > 0) & (relevance[:, None, :] == 0)
    weight = pairs * (relevant / 5.0)[:, :, None]
    ranking = (weight * F.softplus(-margin)).sum() / weight.sum()
    return {"loss": ranking + penalty * 0.5 * ego.mean(), "ranking": ranking.detach()}
