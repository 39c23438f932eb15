"""Point operations. Clouds are [B, N, 3], features [B, C, N]."""
import torch


def square_distance(a, b):
    """[B, N, 3], [B, M, 3] -> [B, N, M]"""
    d = -2 * torch.matmul(a, b.transpose(1, 2))
    d = d + (a ** 2).sum(-1, keepdim=True)
    return d + (b ** 2).sum(-1).unsqueeze(1)


def knn(k, query, support):
    """Indices of the k nearest of `support` for each of `query`."""
    return square_distance(query, support).topk(k, dim=-1, largest=False, sorted=True)[1]


def gather_points(points, index):
    """points [B, N, C], index [B, ...] -> [B, ..., C]"""
    batch = torch.arange(points.shape[0], device=points.device)
    batch = batch.view(-1, *[1] * (index.dim() - 1)).expand_as(index)
    return points[batch, index]


@torch.no_grad()
def farthest_point_sample(points, count):
    """Begins with the point that is farthest from the centroid."""
    b, n, _ = points.shape
    rows = torch.arange(b, device=points.device)
    current = ((points - points.mean(1, keepdim=True)) ** 2).sum(-1).argmax(-1)
    nearest = torch.full((b, n), float("inf"), dtype=points.dtype, device=points.device)
    chosen = []
    for _ in range(count):
        chosen.append(current)
        d = ((points - points[rows, current].unsqueeze(1)) ** 2).sum(-1)
        nearest = torch.minimum(nearest, d)
        current = nearest.argmax(-1)
    return torch.stack(chosen, 1)


def three_interpolate(dense, sparse, values):
    """Inverse distance weighting; values [B, C, M] at `sparse` -> [B, C, N] at `dense`."""
    index = knn(3, dense, sparse)
    offset = gather_points(sparse, index) - dense.unsqueeze(2)
    inverse = 1.0 / offset.norm(dim=-1).clamp(min=1e-2)
    weight = inverse / inverse.sum(-1, keepdim=True)
    grouped = gather_points(values.transpose(1, 2), index)
    return (weight.unsqueeze(-1) * grouped).sum(2).transpose(1, 2)
