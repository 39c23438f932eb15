from paddle.optimizer import lr


def noam(dim, factor, warmup):
    """Vaswani et al. 2017, from step 1: Paddle's begins at step 0, where the rate is 0."""
    schedule = lr.NoamDecay(dim, warmup, learning_rate=factor)
    schedule.step()
    return schedule
