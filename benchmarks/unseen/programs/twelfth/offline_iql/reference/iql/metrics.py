import torch


@torch.no_grad()
def concordance(score, truth):
    """Share of pairs that stand in the same order; a tie of scores is half."""
    ds = score[:, None] - score[None, :]
    dt = truth[:, None] - truth[None, :]
    pairs = torch.triu(torch.ones_like(dt), diagonal=1).bool() & (dt != 0)
    agree = (torch.sign(ds) == torch.sign(dt)).double() + 0.5 * (ds == 0).double()
    return agree[pairs].mean()


@torch.no_grad()
def report(out, labels, gamma):
    goal = labels[:, 0] + gamma * (1 - labels[:, 1]) * out["next_v"]
    td = (out["q"].mean(-1) - goal).abs()
    togo = labels[:, 2]
    residual = togo - out["v"]
    return {
        "td_error": td.mean(),
        "td_p90": torch.quantile(td, 0.9),
        "explained": 1 - residual.var() / (togo.var() + 1e-8),
        "concordance": concordance(out["q"].min(-1)[0], togo),
        "disagreement": out["q"].std(-1).mean(),
        "nll": -out["log_prob"].mean(),
    }
