"""Counts and errors for people."""
import paddle
import paddle.nn.functional as F

from .board import pixels_of, scaled


def quarters(error):
    """Absolute counts of the four quarters, summed: [batch]"""
    batch, height, width = error.shape
    parts = error.reshape([batch, 2, height // 2, 2, width // 2]).sum(axis=[2, 4])
    return parts.abs().sum(axis=[1, 2])


def figures(outputs, truth):
    error = outputs[:, 0] - truth[:, 0]
    counts = error.sum(axis=[1, 2])
    seen, real = outputs[:, 1] > 0, truth[:, 1] > 0.5
    both, either = (seen & real).astype("float32").sum(), (seen | real).astype("float32").sum()
    return {
        "mae": counts.abs().mean(),
        "rmse": counts.square().mean().sqrt(),
        "game": quarters(error).mean(),
        "iou": both / either.clip(min=1.0),
    }


def count(path, network, zones=4):
    with paddle.no_grad():
        image = paddle.to_tensor(scaled(pixels_of(path))[None]).astype(network.parameters()[0].dtype)
        mirrored = paddle.flip(image, axis=[3])
        mean = 0.5 * (network(image) + paddle.flip(network(mirrored), axis=[3]))
        density, logits = mean[0].unbind(0)
        certain = density * (F.sigmoid(logits) > 0.2).astype(density.dtype)
        strips = certain.reshape([certain.shape[0], zones, -1]).sum(axis=[0, 2])
    return {"count": float(density.sum()), "zones": strips.numpy()}
