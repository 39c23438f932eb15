import numpy as np
import paddle
import paddle.nn.functional as F

CODES = 24


def smooth_l1(a, b):
    return ((a - b).square() + 1e-4).sqrt().mean()


def slope_error(a, b):
    error = 0.0
    for axis in (-2, -1):
        error = error + paddle.abs(paddle.diff(a, axis=axis) - paddle.diff(b, axis=axis)).mean()
    return error


def autoencoder_loss(result, clean):
    rec = smooth_l1(result["recon"], clean)
    edge = slope_error(result["recon"], clean)
    commit = F.mse_loss(result["latent"], result["quant"])
    return {"loss": rec + 0.3 * edge + 0.25 * commit, "rec": rec, "edge": edge, "commit": commit}


def structure(a, b, size=7):
    """SSIM with the unbiased variance of each window."""

    def box(v):
        return F.avg_pool2d(v, size, stride=1)

    c1, c2 = 1e-4, 9e-4
    bessel = size * size / (size * size - 1.0)
    mu_a, mu_b = box(a), box(b)
    var_a = (box(a.square()) - mu_a.square()) * bessel
    var_b = (box(b.square()) - mu_b.square()) * bessel
    cov = (box(a * b) - mu_a * mu_b) * bessel
    top = (2 * mu_a * mu_b + c1) * (2 * cov + c2)
    return (top / ((mu_a.square() + mu_b.square() + c1) * (var_a + var_b + c2))).mean()


def code_statistics(codes):
    codes = codes.numpy()
    perplexities, used = [], []
    for part in range(codes.shape[1]):
        times = np.bincount(codes[:, part].ravel(), minlength=CODES)
        p = times / times.sum()
        perplexities.append(np.exp(-np.sum(p * np.log(p + 1e-10))))
        used.append(np.count_nonzero(times) / CODES)
    return np.mean(perplexities), np.mean(used)


def score(result, clean):
    guess = paddle.clip((result["recon"].astype("float64") + 1) / 2, 0, 1)
    truth = (clean.astype("float64") + 1) / 2
    error = (guess - truth).square().flatten(1).mean(axis=1)
    perplexity, usage = code_statistics(result["codes"])
    return {"psnr": float((-10 * paddle.log10(error + 1e-8)).mean()), "ssim": float(structure(guess, truth)), "perplexity": float(perplexity), "usage": float(usage)}
