import math

import paddle
from paddle import ParamAttr, nn
from paddle.nn.initializer import Normal, Uniform, XavierUniform

from .blocks import TransformerLayer, dense, position_table


def take_tokens(tokens, places):
    index = places.unsqueeze(-1).expand([-1, -1, tokens.shape[-1]])
    return paddle.take_along_axis(tokens, index, axis=1)


class Encoder(nn.Layer):
    def __init__(self, options):
        super().__init__()
        part, patch = options.encoder, options.patch
        n_inputs = 3 * patch * patch
        bound = 1.0 / math.sqrt(n_inputs)
        self.n_seen = options.n_seen
        self.summary = self.create_parameter(
            [1, 1, part.width], default_initializer=Normal(0.0, 0.02)
        )
        self.cutter = nn.Conv2D(
            3,
            part.width,
            patch,
            stride=patch,
            weight_attr=ParamAttr(
                initializer=XavierUniform(fan_in=n_inputs, fan_out=part.width)
            ),
            bias_attr=ParamAttr(initializer=Uniform(-bound, bound)),
        )
        self.layers = nn.LayerList(
            [
                TransformerLayer(
                    part.width, part.heads, options.expand, options.epsilon, part.scale
                )
                for _ in range(part.depth)
            ]
        )
        self.norm = nn.LayerNorm(part.width, epsilon=options.epsilon)
        grid = options.pictures.side // patch
        self.register_buffer("where", position_table(part.width, grid), persistable=False)

    def forward(self, images, order):
        tokens = self.cutter(images).flatten(2).transpose([0, 2, 1])
        tokens = take_tokens(tokens + self.where[:, 1:], order[:, : self.n_seen])
        summary = self.summary + self.where[:, :1]
        summary = summary.expand([tokens.shape[0], 1, tokens.shape[2]])
        x = paddle.concat([summary, tokens], axis=1)
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


class Decoder(nn.Layer):
    def __init__(self, options):
        super().__init__()
        part = options.decoder
        self.n_hidden = options.n_patches - options.n_seen
        self.enter = dense(options.encoder.width, part.width)
        self.blank = self.create_parameter(
            [1, 1, part.width], default_initializer=Normal(0.0, 0.02)
        )
        self.layers = nn.LayerList(
            [
                TransformerLayer(part.width, part.heads, options.expand, options.epsilon)
                for _ in range(part.depth)
            ]
        )
        self.norm = nn.LayerNorm(part.width, epsilon=options.epsilon)
        self.pixels = dense(part.width, 3 * options.patch ** 2)
        grid = options.pictures.side // options.patch
        self.register_buffer("where", position_table(part.width, grid), persistable=False)

    def forward(self, latent, order):
        x = self.enter(latent)
        summary, seen = x[:, :1], x[:, 1:]
        blanks = self.blank.expand([x.shape[0], self.n_hidden, x.shape[2]])
        tokens = paddle.concat([seen, blanks], axis=1)
        tokens = take_tokens(tokens, order.argsort(axis=1))
        x = paddle.concat([summary, tokens], axis=1) + self.where
        for layer in self.layers:
            x = layer(x)
        return self.pixels(self.norm(x[:, 1:]))


class PixelMask(nn.Layer):
    def __init__(self, options):
        super().__init__()
        self.decoder = Decoder(options)
        self.encoder = Encoder(options)

    def forward(self, images, order):
        return self.decoder(self.encoder(images, order), order)
