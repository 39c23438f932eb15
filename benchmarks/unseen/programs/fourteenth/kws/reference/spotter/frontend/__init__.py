from .augment import FrequencyMask, TimeMask
from .mel import LogMel, Standardize


class Pipeline:
    def __init__(self, steps):
        self.steps = list(steps)

    def __call__(self, x):
        for step in self.steps:
            x = step(x)
        return x


def build_pipeline(audio, augment=None):
    steps = [LogMel(audio), Standardize()]
    if augment is not None:
        steps += [FrequencyMask(augment.freq_width) for _ in range(augment.freq_masks)]
        steps += [TimeMask(augment.time_width) for _ in range(augment.time_masks)]
    return Pipeline(steps)
