import math

import torch
import torch.nn as nn
import torch.nn.functional as F

from .cache import KVCache
from .functional import apply_rope, causal_attention, repeat_kv, rms_norm, rope_angles, soft_cap


class RMSNorm(nn.Module):
    def __init__(self, dim, eps):
        super().__init__()
        self.eps = eps
        self.weight = nn.Parameter(torch.ones(dim))

    def forward(self, x):
        return rms_norm(x, self.weight, self.eps)


class Attention(nn.Module):
    def __init__(self, args, layer_id):
        super().__init__()
        self.layer_id = layer_id
        self.n_heads, self.n_kv = args.n_heads, args.n_kv_heads
        self.head_dim = args.dim // args.n_heads
        self.wq = nn.Linear(args.dim, self.n_heads * self.head_dim, bias=False)
        self.wk = nn.Linear(args.dim, self.n_kv * self.head_dim, bias=False)
        self.wv = nn.Linear(args.dim, self.n_kv * self.head_dim, bias=False)
        self.wo = nn.Linear(self.n_heads * self.head_dim, args.dim, bias=False)
        self.q_norm = RMSNorm(self.head_dim, args.norm_eps)
        self.k_norm = RMSNorm(self.head_dim, args.norm_eps)

    def forward(self, x, angles, start_pos=0, cache=None):
        b, t, _ = x.shape
        q = self.q_norm(self.wq(x).view(b, t, self.n_heads, self.head_dim))
        k = self.k_norm(self.wk(x).view(b, t, self.n_kv, self.head_dim))
        v = self.wv(x).view(b, t, self.n_kv, self.head_dim)
        q, k = apply_rope(q, angles), apply_rope(k, angles)
        if cache is not None:
            k, v = cache.update(self.layer_id, start_pos, k, v)
        n_rep = self.n_heads // self.n_kv
        return self.wo(causal_attention(q, repeat_kv(k, n_rep), repeat_kv(v, n_rep), start_pos))


class FeedForward(nn.Module):
    def __init__(self, args):
        super().__init__()
        hidden = int(2 * 4 * args.dim / 3)
        hidden = args.multiple_of * ((hidden + args.multiple_of - 1) // args.multiple_of)
        self.w1 = nn.Linear(args.dim, hidden, bias=False)
        self.w2 = nn.Linear(hidden, args.dim, bias=False)
        self.w3 = nn.Linear(args.dim, hidden, bias=False)

    def forward(self, x):
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


class Block(nn.Module):
    def __init__(self, args, layer_id):
        super().__init__()
        self.attention = Attention(args, layer_id)
        self.feed_forward = FeedForward(args)
        self.attention_norm = RMSNorm(args.dim, args.norm_eps)
        self.ffn_norm = RMSNorm(args.dim, args.norm_eps)

    def forward(self, x, angles, start_pos=0, cache=None):
        h = x + self.attention(self.attention_norm(x), angles, start_pos, cache)
        return h + self.feed_forward(self.ffn_norm(h))


class Transformer(nn.Module):
    def __init__(self, args):
        super().__init__()
        self.args = args
        self.tok_embeddings = nn.Embedding(args.vocab_size, args.dim)
        self.layers = nn.ModuleList(Block(args, i) for i in range(args.n_layers))
        self.norm = RMSNorm(args.dim, args.norm_eps)
        self.output = nn.Linear(args.dim, args.vocab_size, bias=False)
        self.output.weight = self.tok_embeddings.weight
        self.apply(self._init_weights)
        for name, p in self.named_parameters():
            if name.endswith(("wo.weight", "w2.weight")):
                nn.init.normal_(p, std=args.init_std / math.sqrt(2 * args.n_layers))

    def _init_weights(self, m):
        if isinstance(m, (nn.Linear, nn.Embedding)):
            nn.init.normal_(m.weight, std=self.args.init_std)

    def forward(self, tokens, start_pos=0, cache=None):
        t = tokens.size(1)
        angles = rope_angles(self.args.dim // self.args.n_heads, self.args.max_seq_len, self.args.rope_theta)
        angles = angles[start_pos : start_pos + t].to(tokens.device)
        h = self.tok_embeddings(tokens) * math.sqrt(self.args.dim)
        for layer in self.layers:
            h = layer(h, angles, start_pos, cache)
        return soft_cap(self.output(self.norm(h)), self.args.softcap)


@torch.no_grad()
def generate(model, prompt, new_tokens):
    cache = KVCache(prompt.size(0), model.args, next(model.parameters()).dtype)
    tokens, pos = prompt, 0
    for _ in range(new_tokens):
        logits = model(tokens[:, pos:], pos, cache)
        pos = tokens.size(1)
        tokens = torch.cat([tokens, logits[:, -1].argmax(-1, keepdim=True)], dim=1)
    return tokens
