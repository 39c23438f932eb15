import torch


class KVCache:
    """Keys and values of the positions seen so far; only for generation."""

    def __init__(self, batch, args, dtype=torch.float32):
        shape = (batch, args.max_seq_len, args.n_kv_heads, args.dim // args.n_heads)
        self.k = [torch.zeros(shape, dtype=dtype) for _ in range(args.n_layers)]
        self.v = [torch.zeros(shape, dtype=dtype) for _ in range(args.n_layers)]

    def update(self, layer, start_pos, k, v):
        end = start_pos + k.size(1)
        self.k[layer][:, start_pos:end] = k
        self.v[layer][:, start_pos:end] = v
        return self.k[layer][:, :end], self.v[layer][:, :end]
