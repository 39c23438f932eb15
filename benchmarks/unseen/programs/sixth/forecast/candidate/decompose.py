import paddle
import paddle.nn.functional as F


def instance_statistics(series, epsilon=1e-5):
    """Mean and deviation along time of (batch, time, channels); no gradient goes through."""
    center = series.mean(axis=1, keepdim=True)
    spread = paddle.sqrt(((series - center) ** 2).mean(axis=1, keepdim=True) + epsilon)
    return center.detach(), spread.detach()


def running_mean(series, width):
    """Mean of `width` neighbours along the last axis, whose ends are repeated."""
    half = (width - 1) // 2
    padded = F.pad(series, [half, half], mode="replicate", data_format="NCL")
    return F.avg_pool1d(padded, width, stride=1)


def split_trend(series, width):
    trend = running_mean(series, width)
    return trend, series - trend
