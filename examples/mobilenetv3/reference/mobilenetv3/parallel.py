"""Several processes, as torchrun starts them: gloo on the CPU. With one process all stays as it is."""

import torch
from torch import distributed
from torch.nn.parallel import DistributedDataParallel
from torch.utils.data import DataLoader, RandomSampler, Subset
from torch.utils.data.distributed import DistributedSampler


def begin(processes):
    if processes > 1:
        distributed.init_process_group("gloo")


def end():
    if distributed.is_initialized():
        distributed.destroy_process_group()


def rank():
    return distributed.get_rank() if distributed.is_initialized() else 0


def processes():
    return distributed.get_world_size() if distributed.is_initialized() else 1


def wrap(model):
    return DistributedDataParallel(model) if processes() > 1 else model


def training_loader(dataset, batch_size):
    """Each process gets its share of every epoch's order; the sampler is told the epoch."""
    sampler = DistributedSampler(dataset, shuffle=True) if processes() > 1 else RandomSampler(dataset)
    return DataLoader(dataset, batch_size=batch_size, sampler=sampler, num_workers=0)


def share(dataset):
    """The samples that this process evaluates: no sample twice, as a distributed sampler would to fill up."""
    return Subset(dataset, range(rank(), len(dataset), processes()))


def averaged(values, samples):
    """Means of all processes, weighed by how many samples each has."""
    if processes() == 1:
        return values
    total = torch.tensor([float(samples), *(float(value) * samples for value in values.values())], dtype=torch.float64)
    distributed.all_reduce(total)
    return dict(zip(values, (total[1:] / total[0]).tolist(), strict=True))
