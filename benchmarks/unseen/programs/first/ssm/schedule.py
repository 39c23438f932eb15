import math

from paddle.optimizer.lr import LambdaDecay


def warmup_cosine(peak, warmup, total, lowest):
    def factor(step):
        if step < warmup:
            return 0.1 + 0.9 * step / warmup
        phase = (step - warmup) / (total - warmup)
        return (lowest + (peak - lowest) * (1 + math.cos(math.pi * phase)) / 2) / peak

    return LambdaDecay(peak, factor)
