import numpy as np
import paddle
from paddle import nn

from .modules import Block, TubeletEmbedding, dense, trunc_normal


class FactorisedViViT(nn.Layer):
    """Space-time attention in turns over tubelet tokens, mean-pooled."""

    def __init__(self, cfg):
        super().__init__()
        dt, dy, dx = cfg.tubelet_size
        times = cfg.num_frames // dt
        places = (cfg.image_size // dy) * (cfg.image_size // dx)
        self.embed = TubeletEmbedding(cfg.in_channels, cfg.embed_dim, cfg.tubelet_size)
        self.time_positions = self.create_parameter([times, cfg.embed_dim], default_initializer=trunc_normal)
        self.space_positions = self.create_parameter([places, cfg.embed_dim], default_initializer=trunc_normal)
        rates = np.linspace(0.0, cfg.drop_path_rate, cfg.depth)
        self.blocks = nn.LayerList([Block(cfg, float(rate)) for rate in rates])
        self.norm = nn.LayerNorm(cfg.embed_dim, epsilon=cfg.epsilon)
        self.head = dense(cfg.embed_dim, cfg.num_classes)

    def forward(self, video):
        x = self.embed(video)
        x = x + self.time_positions.unsqueeze(1) + self.space_positions.unsqueeze(0)
        for block in self.blocks:
            x = block(x)
        return self.head(self.norm(paddle.mean(x, axis=[1, 2])))
