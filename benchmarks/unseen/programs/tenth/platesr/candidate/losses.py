import numpy as np
import paddle
import paddle.nn.functional as F

SOBEL = np.array([[-1, 0, 1], [-2, 0, 2], [-1, 0, 1]]) / 8.0


def sobel(x):
    bank = np.tile(np.stack([SOBEL, SOBEL.T])[:, None], (3, 1, 1, 1))
    kernel = paddle.to_tensor(bank, dtype=x.dtype)
    x = F.pad(x, [1, 1, 1, 1], mode="replicate", data_format="NCHW")
    return F.conv2d(x, kernel, groups=3)


def masked_mean(value, mask):
    return paddle.sum(value * mask) / (paddle.sum(mask) * value.shape[1])


class RestorationLoss:
    def __init__(self, eps=1e-3, edge_weight=0.2, fft_weight=0.05):
        self.eps, self.edge_weight, self.fft_weight = eps, edge_weight, fft_weight

    def charbonnier(self, x, y, mask):
        return masked_mean(paddle.sqrt(paddle.square(x - y) + self.eps ** 2), mask)

    def edge(self, x, y, mask):
        diff = F.smooth_l1_loss(sobel(x), sobel(y), reduction="none", delta=0.1, is_huber=False)
        return masked_mean(diff, mask)

    def spectrum(self, x, y, mask):
        # transform of the masked difference: the same as the difference of the transforms
        gap = paddle.fft.rfft2((x - y) * mask, norm="ortho")
        return paddle.mean(paddle.sqrt(gap.real() ** 2 + gap.imag() ** 2 + 1e-8))

    def __call__(self, outputs, labels):
        clean, mask = paddle.split(labels, [3, 1], axis=1)
        parts = {name: getattr(self, f)(outputs, clean, mask)
                 for name, f in (("pixel", "charbonnier"), ("edge", "edge"), ("spectrum", "spectrum"))}
        parts["loss"] = parts["pixel"] + self.edge_weight * parts["edge"] + self.fft_weight * parts["spectrum"]
        return parts
