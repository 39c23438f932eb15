import paddle
from paddle import nn


class ChannelNorm(nn.Layer):
    """Batch normalisation of NCHW maps; the running variance is the unbiased one."""

    def __init__(self, channels, epsilon=1e-3, keep=0.97):
        super().__init__()
        self.epsilon, self.keep = epsilon, keep
        one = nn.initializer.Constant(1.0)
        self.weight = self.create_parameter([channels], default_initializer=one)
        self.bias = self.create_parameter([channels], is_bias=True)
        self.register_buffer("_mean", paddle.zeros([channels]))
        self.register_buffer("_variance", paddle.ones([channels]))

    def forward(self, x):
        if self.training:
            mean = x.mean(axis=[0, 2, 3])
            var = x.var(axis=[0, 2, 3], unbiased=False)
            self._track(mean.detach(), var.detach(), x.shape[0] * x.shape[2] * x.shape[3])
        else:
            mean, var = self._mean, self._variance
        scale = self.weight * paddle.rsqrt(var + self.epsilon)
        shift = self.bias - mean * scale
        return x * scale.reshape([1, -1, 1, 1]) + shift.reshape([1, -1, 1, 1])

    def _track(self, mean, var, n):
        new = 1.0 - self.keep
        self._mean.set_value(self.keep * self._mean + new * mean)
        self._variance.set_value(self.keep * self._variance + new * var * n / (n - 1))
