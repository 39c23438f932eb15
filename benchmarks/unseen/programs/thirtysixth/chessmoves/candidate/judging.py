"""Loss and measures."""
import paddle
from paddle.nn import functional as F

from .samples import ROOM


def unpack(row, dtype):
    return paddle.split(row.astype(dtype), [ROOM, 3, 1], axis=1)


def objective(outputs, row):
    moves, result, length = unpack(row, outputs["wdl"].dtype)
    policy = -paddle.sum(moves * outputs["policy"], axis=1).mean()
    value = -paddle.sum(result * F.log_softmax(outputs["wdl"], axis=1), axis=1).mean()
    left = F.smooth_l1_loss(outputs["left"], length[:, 0], delta=0.5)
    return {"loss": paddle.add_n([policy, 0.8 * value, 0.3 * left]), "policy": policy, "value": value, "left": left}


def measures(outputs, row):
    moves, result, length = unpack(row, outputs["wdl"].dtype)
    log_p = outputs["policy"]
    favourite = paddle.take_along_axis(log_p, moves.argmax(axis=1, keepdim=True), axis=1)
    better = paddle.logical_and(log_p > favourite, log_p < 0)
    rank = 1 + better.astype("float64").sum(axis=1)
    brier = paddle.square(F.softmax(outputs["wdl"], axis=1) - result).sum(axis=1)
    return {
        "agreement": float((rank == 1).astype("float64").mean()),
        "reciprocal_rank": float(paddle.reciprocal(rank).mean()),
        "brier": float(brier.mean()),
        "plies": float(F.l1_loss(outputs["left"], length[:, 0]) * 40),
    }
