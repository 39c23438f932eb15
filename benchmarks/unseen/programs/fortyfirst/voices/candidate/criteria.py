import paddle
import paddle.nn.functional as F

from .sheets import PAD_LABEL


def criterion(outputs, before, smooth=0.1, crowd=0.25):
    """Smoothed cross entropy of links, and a price where several notes follow one."""
    logp, free = outputs["logp"], outputs["open"]
    real = (before != PAD_LABEL).astype(logp.dtype)
    one = F.one_hot(paddle.clip(before, min=0), logp.shape[-1]).astype(logp.dtype)
    wanted = (1 - smooth) * one + smooth * free / free.sum(axis=-1, keepdim=True)
    links = -((wanted * logp).sum(axis=-1) * real).sum() / real.sum()
    chance = paddle.exp(logp) * free * real[..., None]
    claims = chance[:, :, 1:].sum(axis=1)
    over = F.relu(claims - 1.0)
    return links + crowd * (over * over).sum(axis=-1).mean()
