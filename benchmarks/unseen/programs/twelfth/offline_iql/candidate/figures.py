import paddle

from hyper import HYPER


def kendall_share(score, truth):
    """How many pairs are ordered alike; equal scores count half, equal truths not at all."""
    n = score.shape[0]
    i, j = paddle.triu_indices(n, n, 1)
    ds = paddle.gather(score, i) - paddle.gather(score, j)
    dt = paddle.gather(truth, i) - paddle.gather(truth, j)
    points = (ds * dt > 0).astype("float64") + 0.5 * (ds == 0).astype("float64")
    counted = (dt != 0).astype("float64")
    return (points * counted).sum() / counted.sum()


def figures(out, labels, gamma=HYPER.gamma):
    with paddle.no_grad():
        reward, done, togo = paddle.unbind(labels, axis=1)
        td = paddle.abs(out["q"].mean(axis=1) - reward - gamma * (1 - done) * out["next_v"])
        left = togo - out["v"]
        return {
            "td_error": td.mean(),
            "td_p90": paddle.quantile(td, 0.9),
            "explained": 1 - paddle.var(left) / (paddle.var(togo) + 1e-8),
            "concordance": kendall_share(out["q"].min(axis=1), togo),
            "disagreement": paddle.std(out["q"], axis=1).mean(),
            "nll": -out["log_prob"].mean(),
        }
