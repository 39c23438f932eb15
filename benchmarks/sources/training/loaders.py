"""Data sets, samplers and loaders: each function gives what the loader gives, or what of it does not depend on what is drawn."""

import os

import numpy as np
import torch
from torch.utils.data import (
    BatchSampler, ConcatDataset, DataLoader, Dataset, DistributedSampler, IterableDataset, RandomSampler, Sampler, SequentialSampler, Subset,
    SubsetRandomSampler, TensorDataset, WeightedRandomSampler, random_split,
)


class Squares(Dataset):
    def __init__(self, size=23):
        self.size = size

    def __len__(self):
        return self.size

    def __getitem__(self, index):
        return torch.tensor([float(index), float(index) ** 2]), index


class Mixed(Dataset):
    def __len__(self):
        return 7

    def __getitem__(self, index):
        return {"image": np.full((2, 3), index, dtype="float32"), "label": index % 3, "weight": 0.5 * index, "pair": (index, float(index))}


class Backwards(Sampler):
    def __init__(self, data):
        self.data = data

    def __iter__(self):
        return iter(range(len(self.data) - 1, -1, -1))

    def __len__(self):
        return len(self.data)


class Stream(IterableDataset):
    def __iter__(self):
        for index in range(10):
            yield torch.tensor([float(index)])


def _all(loader):
    return [[x, y] for x, y in loader], len(loader)


def in_order():
    return _all(DataLoader(Squares(), batch_size=4))


def without_the_rest():
    return _all(DataLoader(dataset=Squares(), batch_size=4, shuffle=False, drop_last=True, pin_memory=True, num_workers=0))


def dictionaries():
    return [[x["image"], x["label"], x["weight"], x["pair"][0], x["pair"][1]] for x in DataLoader(Mixed(), 3)]


def types_of_a_batch():
    batch = next(iter(DataLoader(Mixed(), 3)))
    return [str(batch[name].dtype).rpartition(".")[2] for name in ("image", "label", "weight")]


def own_collate():
    def collate(samples):
        return torch.stack([x for x, _ in samples]).sum(0), torch.tensor([y for _, y in samples])

    return _all(DataLoader(Squares(), 5, collate_fn=collate))


def own_sampler():
    data = Squares()
    return _all(DataLoader(data, 4, sampler=Backwards(data), drop_last=True))


def sequential_sampler():
    data = Squares()
    return _all(DataLoader(data, batch_size=6, sampler=SequentialSampler(data), num_workers=0))


def batch_sampler():
    data = Squares()
    return _all(DataLoader(data, batch_sampler=BatchSampler(Backwards(data), batch_size=3, drop_last=False)))


def no_sampler_after_all():
    data, sampler = Squares(), None
    loader = DataLoader(data, batch_size=4, shuffle=(sampler is not None), sampler=sampler)
    return _all(loader)


def everything_is_drawn_once():
    data = Squares()
    drawn = [y for _, labels in DataLoader(data, 4, sampler=RandomSampler(data)) for y in labels.tolist()]
    return sorted(drawn), len(RandomSampler(data))


def drawn_with_replacement():
    data = Squares()
    sampler = RandomSampler(data, replacement=True, num_samples=400)
    drawn = list(sampler)
    return len(drawn), len(sampler), sorted(set(drawn)) == list(range(23))


def shuffled():
    drawn = [y for _, labels in DataLoader(Squares(), batch_size=4, shuffle=True) for y in labels.tolist()]
    return sorted(drawn)


def weighted():
    weights = [0.0, 1.0, 3.0, 0.0, 4.0]
    drawn = list(WeightedRandomSampler(weights, 8000, replacement=True))
    return len(drawn), len(DataLoader(Squares(5), 4, sampler=WeightedRandomSampler(weights, 9))), [round(drawn.count(each) / 8000, 1) for each in range(5)]


def weighted_once_each():
    drawn = list(WeightedRandomSampler(torch.tensor([1.0, 1.0, 2.0, 3.0]), 4, replacement=False))
    return sorted(int(each) for each in drawn)


def a_part_at_random():
    data = Squares()
    return sorted(y for _, labels in DataLoader(data, 4, sampler=SubsetRandomSampler([3, 5, 7, 11])) for y in labels.tolist())


def tensors():
    data = TensorDataset(torch.arange(6).reshape(6, 1), torch.arange(6) * 2)
    return [[x, y] for x, y in DataLoader(data, 4)], len(data)


def parts_and_sums():
    data = ConcatDataset([Subset(Squares(), [1, 4, 9]), Squares(5)])
    return _all(DataLoader(data, 3))


def split_at_random():
    parts = random_split(Squares(), [15, 8])
    return [len(part) for part in parts], sorted(y for part in parts for _, y in part)


def split_by_shares():
    return [len(part) for part in random_split(Squares(), [0.5, 0.3, 0.2])]


def split_with_a_generator():
    return [len(part) for part in random_split(Squares(), [15, 8], generator=torch.Generator().manual_seed(0))]


def a_stream():
    return [x for x in DataLoader(Stream(), batch_size=4)]


def _of_ranks(count, **settings):
    return [list(DistributedSampler(Squares(), num_replicas=count, rank=rank, **settings)) for rank in range(count)]


def ranks_in_order():
    return _of_ranks(4, shuffle=False), _of_ranks(4, shuffle=False, drop_last=True), _of_ranks(30, shuffle=False)


def ranks_shuffled():
    lists = _of_ranks(4, shuffle=True, seed=3)
    return [len(each) for each in lists], sorted(set(sum(lists, [])))


def ranks_by_epochs():
    sampler = DistributedSampler(Squares(), num_replicas=2, rank=1)
    first = list(sampler)
    again = list(sampler)
    sampler.set_epoch(1)
    return first == again, first == list(sampler), len(sampler)


def loader_of_a_rank():
    data = Squares()
    sampler = DistributedSampler(data, num_replicas=2, rank=1, shuffle=False)
    return _all(DataLoader(data, batch_size=5, sampler=sampler))


def ranks_that_nobody_launched():
    return int(os.environ.get("RANK", 0)), int(os.getenv("WORLD_SIZE", "1")), "LOCAL_RANK" in os.environ


class _Squares(Dataset):
    def __len__(self):
        return 4

    def __getitem__(self, index):
        return {"x": np.full(2, float(index) ** 2), "index": index}


def samples_without_batches():
    return [(sample["x"], sample["index"]) for sample in DataLoader(_Squares(), batch_size=None, sampler=[2, 0, 3])]
