"""Several processes, as paddle.distributed.launch starts them: gloo on the CPU. With one process all stays as it is."""

import paddle
from paddle import distributed
from paddle.io import DataLoader, DistributedBatchSampler, Subset


def begin():
    if distributed.get_world_size() > 1:
        distributed.init_parallel_env()


def rank():
    return distributed.get_rank()


def processes():
    return distributed.get_world_size()


def wrap(model):
    return paddle.DataParallel(model) if processes() > 1 else model


def training_loader(dataset, batch_size):
    """Each process gets its share of every epoch's order; the sampler is told the epoch."""
    sampler = DistributedBatchSampler(dataset, batch_size=batch_size, shuffle=True, drop_last=False)
    return DataLoader(dataset, batch_sampler=sampler, num_workers=0)


def share(dataset):
    """The samples that this process evaluates: no sample twice, as a distributed sampler would to fill up."""
    return Subset(dataset, list(range(rank(), len(dataset), distributed.get_world_size())))


def averaged(values, samples):
    """Means of all processes, weighed by how many samples each has."""
    if distributed.get_world_size() == 1:
        return values
    total = paddle.to_tensor([float(samples), *(float(value) * samples for value in values.values())], dtype="float64")
    distributed.all_reduce(total)
    return dict(zip(values, (total[1:] / total[0]).tolist(), strict=True))
