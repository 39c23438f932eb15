import numpy as np
import paddle
import paddle.nn.functional as F


def smooth_l1(error, beta):
    size = error.abs()
    return paddle.where(size < beta, 0.5 * size * size / beta, size - 0.5 * beta)


def objective(guess, truth, beta=0.5, fade=0.97, slope_share=0.1):
    """Errors count less the farther they lie ahead; the slope's absolute error is added."""
    steps = guess.shape[1]
    share = np.power(fade, np.arange(steps))
    share = paddle.to_tensor(share / share.sum(), dtype=guess.dtype)
    ahead = smooth_l1(guess - truth, beta).mean(axis=[0, 2])
    slope = (guess[:, 1:] - guess[:, :-1]) - (truth[:, 1:] - truth[:, :-1])
    return paddle.dot(ahead, share) + slope_share * slope.abs().mean()


@paddle.no_grad()
def figures(guess, truth):
    error = guess - truth
    mse = F.mse_loss(guess, truth)
    deviation = truth.var(unbiased=False)
    a = guess - guess.mean(axis=0, keepdim=True)
    b = truth - truth.mean(axis=0, keepdim=True)
    norm = paddle.sqrt(a.square().sum(axis=0) * b.square().sum(axis=0) + 1e-12)
    return {
        "mse": mse,
        "mae": F.l1_loss(guess, truth),
        "rse": paddle.sqrt(mse / deviation),
        "smape": 100.0 * (2.0 * error.abs() / (guess.abs() + truth.abs() + 1e-8)).mean(),
        "corr": ((a * b).sum(axis=0) / norm).mean(),
    }
