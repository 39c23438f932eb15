import torch
from torch import nn

from .posembed import sincos_2d
from .vit import Block, PatchEmbed


class MaskedAutoencoder(nn.Module):
    def __init__(self, cfg, img_size):
        super().__init__()
        grid = img_size // cfg.patch
        self.num_patches = grid * grid
        self.keep = int(self.num_patches * (1 - cfg.mask_ratio))

        self.patch_embed = PatchEmbed(cfg.patch, cfg.dim)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, cfg.dim))
        self.blocks = nn.ModuleList(
            Block(cfg.dim, cfg.heads, cfg.mlp_ratio, cfg.norm_eps, cfg.layer_scale)
            for _ in range(cfg.depth)
        )
        self.norm = nn.LayerNorm(cfg.dim, eps=cfg.norm_eps)

        self.decoder_embed = nn.Linear(cfg.dim, cfg.decoder_dim)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, cfg.decoder_dim))
        self.decoder_blocks = nn.ModuleList(
            Block(cfg.decoder_dim, cfg.decoder_heads, cfg.mlp_ratio, cfg.norm_eps)
            for _ in range(cfg.decoder_depth)
        )
        self.decoder_norm = nn.LayerNorm(cfg.decoder_dim, eps=cfg.norm_eps)
        self.decoder_pred = nn.Linear(cfg.decoder_dim, cfg.patch**2 * 3)

        for name, dim in (("pos_embed", cfg.dim), ("decoder_pos_embed", cfg.decoder_dim)):
            table = torch.from_numpy(sincos_2d(dim, grid)).float()
            self.register_buffer(name, table.unsqueeze(0), persistent=False)
        self.init_weights()

    def init_weights(self):
        w = self.patch_embed.proj.weight.data
        nn.init.xavier_uniform_(w.view(w.shape[0], -1))
        nn.init.normal_(self.cls_token, std=0.02)
        nn.init.normal_(self.mask_token, std=0.02)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)

    def encode(self, images, order):
        x = self.patch_embed(images) + self.pos_embed[:, 1:]
        visible = order[:, : self.keep].unsqueeze(-1).expand(-1, -1, x.shape[-1])
        x = torch.gather(x, 1, visible)
        cls = (self.cls_token + self.pos_embed[:, :1]).expand(x.shape[0], -1, -1)
        x = torch.cat([cls, x], dim=1)
        for block in self.blocks:
            x = block(x)
        return self.norm(x)

    def decode(self, latent, order):
        x = self.decoder_embed(latent)
        b, _, d = x.shape
        hidden = self.mask_token.expand(b, self.num_patches - self.keep, -1)
        tokens = torch.cat([x[:, 1:], hidden], dim=1)
        restore = torch.argsort(order, dim=1)
        tokens = torch.gather(tokens, 1, restore.unsqueeze(-1).expand(-1, -1, d))
        x = torch.cat([x[:, :1], tokens], dim=1) + self.decoder_pos_embed
        for block in self.decoder_blocks:
            x = block(x)
        return self.decoder_pred(self.decoder_norm(x))[:, 1:]

    def forward(self, images, order):
        return self.decode(self.encode(images, order), order)
