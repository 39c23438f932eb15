"""Losses and image quality, all by matrices along rows and columns."""
import numpy as np
import paddle
from pp_patches import bell
from pp_settings import get


def band(n, taps):
    m = np.zeros((n - len(taps) + 1, n))
    for i in range(m.shape[0]):
        m[i, i : i + len(taps)] = taps
    return m


def filtered(t, down, across):
    d = paddle.to_tensor(band(t.shape[2], down)).astype(t.dtype)
    a = paddle.to_tensor(band(t.shape[3], across)).astype(t.dtype)
    return paddle.matmul(paddle.matmul(d, t), a, transpose_y=True)


def ssim(a, b):
    taps = bell(get("objective.ssim_radius"), get("objective.ssim_sigma"))
    ma, mb, aa, bb, ab = (filtered(t, taps, taps) for t in (a, b, a * a, b * b, a * b))
    prod, squares = ma * mb, ma * ma + mb * mb
    light = (2.0 * prod + 0.0001) / (squares + 0.0001)
    contrast = (2.0 * (ab - prod) + 0.0009) / (aa + bb - squares + 0.0009)
    return paddle.mean(light * contrast)


def soft_abs(d):
    return paddle.sqrt(d.square() + get("objective.soft") ** 2).mean()


def edges(t):
    smooth, slope = [0.25, 0.5, 0.25], [0.5, 0.0, -0.5]
    return paddle.concat([filtered(t, smooth, slope), filtered(t, slope, smooth)], axis=1)


def objective(out, ref):
    w = get("objective.weights")
    parts = {
        "pixel": soft_abs(out - ref),
        "ssim": 1.0 - ssim(out, ref),
        "edge": soft_abs(edges(out) - edges(ref)),
    }
    return sum(w[k] * v for k, v in parts.items())


def grey(x):
    return np.tensordot(x, [0.299, 0.587, 0.114], axes=([1], [0]))


def psnr(out, ref):
    s = get("inference.border")
    per_image = []
    for a, b in zip(grey(np.clip(out, 0, 1)), grey(np.clip(ref, 0, 1))):
        mse = np.mean((a - b)[s:-s, s:-s] ** 2)
        per_image.append(-10.0 * np.log10(max(mse, 1e-10)))
    return float(np.mean(per_image))


def laplacian_power(img):
    lap = -4.0 * img[1:-1, 1:-1]
    for dy, dx in ((-1, 0), (1, 0), (0, -1), (0, 1)):
        lap = lap + img[1 + dy : img.shape[0] - 1 + dy, 1 + dx : img.shape[1] - 1 + dx]
    return np.var(lap, ddof=1)


def report(out, ref):
    a, b = out.detach().astype("float64"), ref.astype("float64")
    na, nb = a.numpy(), b.numpy()
    ratios = [laplacian_power(x) / laplacian_power(y) for x, y in zip(grey(na), grey(nb))]
    return {
        "psnr": psnr(na, nb),
        "ssim": float(ssim(a, b)),
        "sharpness": float(np.mean(ratios)),
        "bias": float(np.abs((na - nb).mean(axis=(0, 2, 3))).max()),
    }
