"""Sums, means and softmax over the members of a segment, with index_add."""
import torch


def total(values, index, count):
    return values.new_zeros((count,) + values.shape[1:]).index_add(0, index, values)


def mean(values, index, count):
    size = total(torch.ones_like(values[:, :1]), index, count)
    return total(values, index, count) / size.clamp(min=1)


def softmax(scores, index, count):
    where = index[:, None].expand_as(scores)
    top = torch.full((count, scores.shape[1]), -1e30, dtype=scores.dtype).scatter_reduce(0, where, scores.detach(), "amax")
    raised = torch.exp(scores - top[index])
    return raised / total(raised, index, count)[index]
