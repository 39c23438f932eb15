from torch import optim


def noam(optimizer, dim, factor, warmup):
    """Vaswani et al. 2017, from step 1."""

    def rate(step):
        step = step + 1
        return factor * dim**-0.5 * min(step**-0.5, step * warmup**-1.5)

    return optim.lr_scheduler.LambdaLR(optimizer, rate)
