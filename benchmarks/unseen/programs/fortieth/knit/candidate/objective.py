import paddle
import paddle.nn.functional as F

from .yarn import CHANGE, NO_STITCH

POWER = 1.5
BALANCE_SHARE, CHANGE_SHARE = 2.0, 0.1
BEND = 0.1


def hard_ones_first(scores, truth):
    logp = paddle.take_along_axis(F.log_softmax(scores, axis=-1), truth.unsqueeze(-1), axis=-1).squeeze(-1)
    with paddle.no_grad():
        asked = (truth != NO_STITCH).astype(scores.dtype)
        weight = paddle.pow(1.0 - paddle.exp(logp), POWER) * asked
    return -(weight * logp).sum() / asked.sum()


def bent(off):
    """Huber: quadratic up to BEND, then straight."""
    size = off.abs()
    return paddle.where(size <= BEND, 0.5 * size ** 2, BEND * (size - 0.5 * BEND))


def row_loss(outputs, truth):
    scores, change = outputs
    per_stitch = paddle.to_tensor(CHANGE, dtype=scores.dtype)
    grown = paddle.einsum("bwk,k->b", F.softmax(scores, axis=-1), per_stitch)
    should = per_stitch[truth].sum(axis=-1)
    balance = bent((grown - should) / truth.shape[-1]).mean()
    return hard_ones_first(scores, truth) + BALANCE_SHARE * balance + CHANGE_SHARE * F.mse_loss(change, should)
