import torch


def scatter_sum(src, index, size):
    out = torch.zeros(size, *src.shape[1:], dtype=src.dtype, device=src.device)
    return out.index_add_(0, index, src)


def scatter_mean(src, index, size):
    count = scatter_sum(torch.ones_like(index, dtype=src.dtype), index, size)
    count = count.clamp(min=1.0).view(-1, *[1] * (src.dim() - 1))
    return scatter_sum(src, index, size) / count


def scatter_softmax(src, index, size):
    peak = torch.full((size,), float("-inf"), dtype=src.dtype, device=src.device)
    peak = peak.scatter_reduce(0, index, src.detach(), reduce="amax")
    weight = (src - peak[index]).exp()
    return weight / scatter_sum(weight, index, size)[index]
