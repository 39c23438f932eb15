import torch
import torch.nn as nn

from .pos_embed import get_2d_sincos


class Attention(nn.Module):
    def __init__(self, dim, heads):
        super().__init__()
        self.heads, self.scale = heads, (dim // heads) ** -0.5
        self.qkv = nn.Linear(dim, dim * 3)
        self.proj = nn.Linear(dim, dim)

    def forward(self, x):
        B, N, C = x.shape
        q, k, v = self.qkv(x).reshape(B, N, 3, self.heads, C // self.heads).permute(2, 0, 3, 1, 4).unbind(0)
        attn = ((q @ k.transpose(-2, -1)) * self.scale).softmax(-1)
        return self.proj((attn @ v).transpose(1, 2).reshape(B, N, C))


class Block(nn.Module):
    def __init__(self, dim, heads, mlp_ratio=2.0):
        super().__init__()
        self.norm1 = nn.LayerNorm(dim, eps=1e-6)
        self.attn = Attention(dim, heads)
        self.norm2 = nn.LayerNorm(dim, eps=1e-6)
        self.mlp = nn.Sequential(nn.Linear(dim, int(dim * mlp_ratio)), nn.GELU(), nn.Linear(int(dim * mlp_ratio), dim))

    def forward(self, x):
        x = x + self.attn(self.norm1(x))
        return x + self.mlp(self.norm2(x))


class MaskedAutoencoderViT(nn.Module):
    def __init__(self, img_size=16, patch_size=4, in_chans=3, dim=32, depth=2, heads=4, dec_dim=24, dec_depth=1, dec_heads=3,
                 mask_ratio=0.75):
        super().__init__()
        self.patch_size, self.mask_ratio, self.grid = patch_size, mask_ratio, img_size // patch_size
        L = self.grid ** 2
        self.patch_embed = nn.Conv2d(in_chans, dim, patch_size, patch_size)
        self.cls_token = nn.Parameter(torch.zeros(1, 1, dim))
        self.register_buffer("pos_embed", torch.from_numpy(get_2d_sincos(dim, self.grid)).float()[None])
        self.blocks = nn.ModuleList([Block(dim, heads) for _ in range(depth)])
        self.norm = nn.LayerNorm(dim, eps=1e-6)
        self.decoder_embed = nn.Linear(dim, dec_dim)
        self.mask_token = nn.Parameter(torch.zeros(1, 1, dec_dim))
        self.register_buffer("decoder_pos_embed", torch.from_numpy(get_2d_sincos(dec_dim, self.grid)).float()[None])
        self.decoder_blocks = nn.ModuleList([Block(dec_dim, dec_heads) for _ in range(dec_depth)])
        self.decoder_norm = nn.LayerNorm(dec_dim, eps=1e-6)
        self.decoder_pred = nn.Linear(dec_dim, patch_size ** 2 * in_chans)
        # a fixed scattered order for evaluation
        self.register_buffer("eval_order", (torch.arange(L) * 7 + 3) % L)
        self.initialize_weights()

    def initialize_weights(self):
        w = self.patch_embed.weight.data
        nn.init.xavier_uniform_(w.view(w.shape[0], -1))
        nn.init.zeros_(self.patch_embed.bias)
        nn.init.normal_(self.cls_token, std=0.02)
        nn.init.normal_(self.mask_token, std=0.02)
        for m in self.modules():
            if isinstance(m, nn.Linear):
                nn.init.xavier_uniform_(m.weight)
                nn.init.zeros_(m.bias)

    def random_masking(self, x):
        N, L, D = x.shape
        len_keep = int(L * (1 - self.mask_ratio))
        if self.training:
            noise = torch.rand(N, L, device=x.device)
        else:
            noise = self.eval_order[None].expand(N, L)
        ids_shuffle = torch.argsort(noise, dim=1)
        ids_restore = torch.argsort(ids_shuffle, dim=1)
        ids_keep = ids_shuffle[:, :len_keep]
        x_masked = torch.gather(x, 1, ids_keep.unsqueeze(-1).repeat(1, 1, D))
        mask = torch.ones([N, L], dtype=x.dtype, device=x.device)
        mask[:, :len_keep] = 0
        return x_masked, torch.gather(mask, 1, ids_restore), ids_restore

    def forward(self, imgs):
        x = self.patch_embed(imgs).flatten(2).transpose(1, 2)
        x = x + self.pos_embed[:, 1:].to(x.dtype)
        x, mask, ids_restore = self.random_masking(x)
        cls = self.cls_token + self.pos_embed[:, :1].to(x.dtype)
        x = torch.cat([cls.expand(x.shape[0], -1, -1), x], dim=1)
        for blk in self.blocks:
            x = blk(x)
        latent = self.norm(x)

        y = self.decoder_embed(latent)
        fill = self.mask_token.repeat(y.shape[0], ids_restore.shape[1] + 1 - y.shape[1], 1)
        y_ = torch.cat([y[:, 1:], fill], dim=1)
        y_ = torch.gather(y_, 1, ids_restore.unsqueeze(-1).repeat(1, 1, y.shape[2]))
        y = torch.cat([y[:, :1], y_], dim=1) + self.decoder_pos_embed.to(y_.dtype)
        for blk in self.decoder_blocks:
            y = blk(y)
        pred = self.decoder_pred(self.decoder_norm(y))[:, 1:]
        return {"pred": pred, "mask": mask, "cls": latent[:, 0]}


def patchify(imgs, p):
    h = imgs.shape[2] // p
    x = imgs.reshape(imgs.shape[0], 3, h, p, h, p)
    return torch.einsum("nchpwq->nhwpqc", x).reshape(imgs.shape[0], h * h, p * p * 3)
