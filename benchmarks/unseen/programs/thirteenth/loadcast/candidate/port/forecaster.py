import math

import paddle
import paddle.nn as nn
import paddle.nn.functional as F

from .layers import conv, dense, table, two_layers

KNOWN = 5  # hour, weekday (each twice), temperature


class TemporalEncoder(nn.Layer):
    def __init__(self, width, kernel, dilations):
        super().__init__()
        self.inp = conv(2 + KNOWN, width)
        self.pads = [(kernel - 1) * d for d in dilations]
        self.convs = nn.LayerList([conv(width, 2 * width, kernel, d) for d in dilations])
        self.mixes = nn.LayerList([conv(width, 2 * width) for _ in dilations])
        self.norms = nn.LayerList([nn.LayerNorm(width) for _ in dilations])
        self.score = dense(width, 1)

    def forward(self, x):
        x = self.inp(x.transpose([0, 2, 1]))
        skips = []
        for pad, conv_, mix, norm in zip(self.pads, self.convs, self.mixes, self.norms):
            y = conv_(F.pad(x, [pad, 0], mode="replicate", data_format="NCL"))
            value, gate = paddle.chunk(y, 2, axis=1)
            residual, skip = paddle.chunk(mix(paddle.tanh(value) * F.sigmoid(gate)), 2, axis=1)
            x = norm((x + residual).transpose([0, 2, 1])).transpose([0, 2, 1])
            skips.append(skip)
        h = F.elu(sum(skips)).transpose([0, 2, 1])
        weights = F.softmax(self.score(h).squeeze(-1), axis=-1)
        pooled = paddle.matmul(weights.unsqueeze(1), h).squeeze(1)
        return paddle.concat([pooled, h[:, -1]], axis=-1)


def mean_and_log_var(net, x):
    mean, log_var = paddle.chunk(net(x), 2, axis=-1)
    return mean, paddle.clip(log_var, -6.0, 3.0)


def sample(mean, log_var, noise):
    return mean + paddle.exp(log_var / 2) * noise


def log_density(x, mean, log_var):
    square = (x - mean).pow(2) * paddle.exp(-log_var)
    return (-0.5 * (square + log_var + math.log(2 * math.pi))).sum(axis=-1)


class Forecaster(nn.Layer):
    def __init__(self, stations, horizon, net):
        super().__init__()
        hidden, latent = net["hidden"], net["latent"]
        context = 2 * net["width"] + net["series_dim"]
        self.horizon, self.min_scale, self.half = horizon, net["min_scale"], latent // 2
        self.series = table(stations, net["series_dim"])
        self.encoder = TemporalEncoder(net["width"], net["kernel"], net["dilations"])
        self.prior = two_layers(context, hidden, 2 * latent, nn.Silu())
        self.posterior = two_layers(context + horizon, hidden, 2 * latent, nn.Silu())
        self.flow = nn.LayerList(
            [two_layers(self.half + context, hidden, latent, nn.LeakyReLU(0.1)) for _ in range(net["flows"])]
        )
        self.start = dense(context + latent, hidden)
        self.cell = nn.GRUCell(KNOWN + latent, hidden)
        self.params = dense(hidden, 3)
        self.quantile = dense(hidden, 3)
        self.register_buffer("kl_mean", paddle.zeros([1]))

    def transport(self, z, context):
        logdet = 0.0
        for net in self.flow:
            a, b = z[:, : self.half], z[:, self.half :]
            log_scale, shift = paddle.chunk(net(paddle.concat([a, context], axis=-1)), 2, axis=-1)
            log_scale = 0.8 * paddle.tanh(log_scale)
            z = paddle.concat([b * log_scale.exp() + shift, a], axis=-1)
            logdet = logdet + log_scale.sum(axis=-1)
        return z, logdet

    def unroll(self, context, z, known):
        h = paddle.tanh(self.start(paddle.concat([context, z], axis=-1)))
        states = []
        for t in range(self.horizon):
            _, h = self.cell(paddle.concat([known[:, t], z], axis=-1), h)
            states.append(h)
        return paddle.stack(states, axis=1)

    def heads(self, h):
        p, q = self.params(h), self.quantile(h)
        low = q[:, :, 0]
        middle = low + F.softplus(q[:, :, 1])
        high = middle + F.softplus(q[:, :, 2])
        return {
            "loc": p[:, :, 0],
            "scale": F.softplus(p[:, :, 1]) + self.min_scale,
            "df": F.softplus(p[:, :, 2]) + 2.0,
            "quantiles": paddle.stack([low, middle, high], axis=-1),
        }

    def forward(self, past, known, series, noise, future=None):
        hours = past.shape[1]
        context = self.encoder(paddle.concat([past, known[:, :hours]], axis=-1))
        context = paddle.concat([context, self.series(series)], axis=-1)
        ahead = known[:, hours:]
        prior = mean_and_log_var(self.prior, context)
        if future is None:
            return self.heads(self.unroll(context, sample(*prior, noise), ahead))
        posterior = mean_and_log_var(self.posterior, paddle.concat([context, future], axis=-1))
        first = sample(*posterior, noise)
        z, logdet = self.transport(first, context)
        outputs = self.heads(self.unroll(context, z, ahead))
        outputs["kl"] = log_density(first, *posterior) - logdet - log_density(z, *prior)
        return outputs
