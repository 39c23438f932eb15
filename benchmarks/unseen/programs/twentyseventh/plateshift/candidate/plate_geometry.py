"""Affine maps in coordinates from -1 to 1, x before y."""
import numpy as np
import paddle
import paddle.nn.functional as F

CORNERS = np.array([[-1, -1], [1, -1], [1, 1], [-1, 1]], dtype="float64")


def compose(outer, inner):
    """The map that applies inner first."""
    linear = paddle.matmul(outer[:, :, :2], inner[:, :, :2])
    shift = paddle.matmul(outer[:, :, :2], inner[:, :, 2:]) + outer[:, :, 2:]
    return paddle.concat([linear, shift], axis=2)


def invert(theta):
    linear = np.linalg.inv(theta[:, :2])
    return np.hstack([linear, -linear @ theta[:, 2:]])


def det(theta):
    return theta[:, 0, 0] * theta[:, 1, 1] - theta[:, 0, 1] * theta[:, 1, 0]


def move(theta, points):
    return np.einsum("bij,kj->bki", theta[:, :, :2], points) + theta[:, None, :, 2]


@paddle.no_grad()
def warp(image, theta, size=None, padding="border"):
    h, w = size or image.shape[2:]
    grid = F.affine_grid(theta, [image.shape[0], 1, h, w], align_corners=False)
    return F.grid_sample(image, grid, padding_mode=padding, align_corners=False)


def to_pixels(theta, h, w):
    """The same map between pixel indices of an h x w plate."""
    to_unit = np.array([[2 / w, 0, 1 / w - 1], [0, 2 / h, 1 / h - 1], [0, 0, 1]])
    full = np.vstack([theta, [0, 0, 1]])
    return (np.linalg.inv(to_unit) @ full @ to_unit)[:2]
