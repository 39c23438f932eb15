"""The distribution of counts, the loss and what is reported."""
import torch
import torch.nn.functional as F


def negative_binomial(y, log_mu, log_r):
    r = torch.exp(log_r)
    both = torch.logaddexp(log_r, log_mu)
    choose = torch.lgamma(y + r) - torch.lgamma(r) - torch.lgamma(y + 1)
    return choose + r * (log_r - both) + y * (log_mu - both)


def log_likelihood(y, out):
    never, ever = F.logsigmoid(out["empty"]), F.logsigmoid(-out["empty"])
    counted = ever + negative_binomial(y, out["log_mu"], out["log_r"])
    return torch.where(y == 0, torch.logaddexp(never, counted), counted)


def loss(outputs, labels, penalty=0.02):
    known = (labels >= 0).to(outputs["log_mu"].dtype)
    ll = log_likelihood(labels.clamp(min=0).to(outputs["log_mu"].dtype), outputs) * known
    per_kind = -ll.sum(dim=0) / known.sum(dim=0).clamp(min=1)
    return per_kind.mean() + penalty * outputs["parts"].square().mean()


def expected(outputs):
    return torch.sigmoid(-outputs["empty"]) * torch.exp(outputs["log_mu"])


def metric(outputs, labels):
    known = labels >= 0
    y = labels.clamp(min=0).to(outputs["log_mu"].dtype)
    off = torch.log1p(expected(outputs)) - torch.log1p(y)
    zero = torch.exp(log_likelihood(torch.zeros_like(y), outputs))
    brier = (zero - (y == 0).to(y.dtype)) ** 2
    return {"rmsle": torch.sqrt((off[known] ** 2).mean()), "zero_brier": brier[known].mean(),
            "bias": expected(outputs)[known].sum() / y[known].sum()}
