import numpy as np
import paddle
import paddle.nn.functional as F

from .geometry import match
from .settings import CFG
from .workspace import create

anchor_grid = create(CFG["anchors"])
codec = create(CFG["codec"])


def collect_targets(anchors, truths):
    """Targets of a whole batch: one-hot classes, a mask of what counts, indices of positives and their codes."""
    batch, n = truths.shape[0], anchors.shape[0]
    onehot = np.zeros((batch, n, CFG["classes"]), "float32")
    counted = np.ones((batch, n, 1), "float32")
    where, codes = [], []
    for b in range(batch):
        rows = truths[b]
        rows = rows[(rows[:, 4] >= 0).nonzero().flatten()]
        if rows.shape[0] == 0:
            continue
        boxes = rows[:, :4].astype(anchors.dtype)
        owner = match(anchors, boxes, **CFG["matching"])
        counted[b, owner == -2] = 0
        hits = np.nonzero(owner >= 0)[0]
        kinds = rows[:, 4].numpy().astype("int64")
        onehot[b, hits, kinds[owner[hits]]] = 1
        where.append(b * n + hits)
        codes.append(codec.encode(paddle.gather(anchors, paddle.to_tensor(hits)), paddle.gather(boxes, paddle.to_tensor(owner[hits]))))
    return onehot, counted, np.concatenate(where), paddle.concat(codes)


def detection_loss(outputs, truths):
    logits, offsets = outputs
    anchors = anchor_grid(CFG["input"], offsets.dtype)
    onehot, counted, where, codes = collect_targets(anchors, truths)
    positives = max(len(where), 1)
    focal = F.sigmoid_focal_loss(logits, paddle.to_tensor(onehot).astype(logits.dtype), reduction="none", **CFG["focal"])
    focal = (focal * paddle.to_tensor(counted).astype(logits.dtype)).sum() / positives
    chosen = paddle.gather(offsets.reshape([-1, 4]), paddle.to_tensor(where))
    beta = CFG["l1_beta"]
    box = F.smooth_l1_loss(chosen, codes, reduction="sum", delta=beta) / beta / positives
    return {"loss": focal + box, "loss_cls": focal, "loss_bbox": box}
