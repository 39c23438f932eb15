import paddle
import paddle.nn.functional as F


def weighted_bce(score, mask, positive):
    """-[w m log s(x) + (1 - m) log s(-x)], mean over pixels."""
    log_p = F.log_sigmoid(score)
    log_q = F.log_sigmoid(-score)
    return -(positive * mask * log_p + (1.0 - mask) * log_q).mean()


def soft_dice(score, mask, smooth):
    p = F.sigmoid(score)
    axes = [1, 2, 3]
    overlap = (p * mask).sum(axis=axes)
    total = p.square().sum(axis=axes) + mask.square().sum(axis=axes)
    return 1.0 - ((2.0 * overlap + smooth) / (total + smooth)).mean()


def criterion(outputs, mask, opts):
    mask = mask.astype(outputs["out"].dtype)
    total = 0.0
    for key, share in (("out", 1.0), ("aux", opts.aux)):
        score = outputs[key]
        total = total + share * (
            opts.bce * weighted_bce(score, mask, opts.positive) + opts.dice * soft_dice(score, mask, opts.smooth)
        )
    return total
