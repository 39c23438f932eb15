import math

import torch
from torch import nn


class CausalAttention(nn.Module):
    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.qkv = nn.Linear(width, 3 * width)
        self.out = nn.Linear(width, width)

    def forward(self, x, valid):
        batch, length, width = x.shape
        q, k, v = self.qkv(x).reshape(batch, length, 3, self.heads, width // self.heads).permute(2, 0, 3, 1, 4)
        scores = q @ k.transpose(-2, -1) / math.sqrt(q.shape[-1])
        causal = torch.ones(length, length, dtype=torch.bool, device=x.device).tril()
        allowed = causal & valid[:, None, None, :].bool()
        weights = scores.masked_fill(~allowed, -1e4).softmax(-1)
        return self.out((weights @ v).transpose(1, 2).reshape(batch, length, width))


class Block(nn.Module):
    def __init__(self, width, heads, ratio):
        super().__init__()
        self.norm1 = nn.LayerNorm(width)
        self.attention = CausalAttention(width, heads)
        self.norm2 = nn.LayerNorm(width)
        self.mlp = nn.Sequential(
            nn.Linear(width, ratio * width), nn.GELU(approximate="tanh"), nn.Linear(ratio * width, width)
        )

    def forward(self, x, valid):
        x = x + self.attention(self.norm1(x), valid)
        return x + self.mlp(self.norm2(x))


class DecisionTransformer(nn.Module):
    """Tokens are return, state, action, return, state, action, ..."""

    def __init__(self, state_dim, action_dim, m):
        super().__init__()
        self.layers = m.layers
        self.embed_time = nn.Embedding(m.max_time, m.width)
        self.embed_return = nn.Linear(1, m.width)
        self.embed_state = nn.Linear(state_dim, m.width)
        self.embed_action = nn.Linear(action_dim, m.width)
        self.embed_norm = nn.LayerNorm(m.width)
        self.blocks = nn.ModuleList([Block(m.width, m.heads, m.mlp_ratio) for _ in range(m.layers)])
        self.norm = nn.LayerNorm(m.width)
        self.action_head = nn.Linear(m.width, action_dim)
        self.return_head = nn.Linear(m.width, 1)
        self.apply(self.init_weights)
        for block in self.blocks:  # residual branches begin smaller, as in GPT-2
            for layer in (block.attention.out, block.mlp[-1]):
                nn.init.normal_(layer.weight, std=0.05 / math.sqrt(2 * m.layers))

    @staticmethod
    def init_weights(module):
        if isinstance(module, (nn.Linear, nn.Embedding)):
            nn.init.normal_(module.weight, std=0.05)
        if isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)

    def forward(self, states, actions, returns, times, mask):
        batch, length = times.shape
        time = self.embed_time(times)
        tokens = torch.stack(
            [self.embed_return(returns) + time, self.embed_state(states) + time, self.embed_action(actions) + time], 2
        )
        x = self.embed_norm(tokens.reshape(batch, 3 * length, -1))
        valid = mask.repeat_interleave(3, dim=1)
        for block in self.blocks:
            x = block(x, valid)
        x = self.norm(x).reshape(batch, length, 3, -1)
        # an action follows its state, the next return follows the action
        return {"actions": torch.tanh(self.action_head(x[:, :, 1])), "returns": self.return_head(x[:, :, 2])[..., 0]}
