import torch


class GaussianNormalizer:
    """Each grid point of its own: zero mean and unit deviation over the samples it was fitted on."""

    def __init__(self, samples, eps=1e-5):
        samples = samples.double()
        self.mean = samples.mean(0)
        self.std = samples.std(0)
        self.eps = eps

    def encode(self, x):
        return (x - self.mean.to(x)) / (self.std.to(x) + self.eps)

    def decode(self, x):
        return x * (self.std.to(x) + self.eps) + self.mean.to(x)


class LogRange:
    """Logarithm, brought to -1 .. 1 by the range of the samples."""

    def __init__(self, samples):
        logs = torch.log(samples)
        self.low, self.high = logs.min().item(), logs.max().item()

    def encode(self, x):
        return 2 * (torch.log(x) - self.low) / (self.high - self.low) - 1
