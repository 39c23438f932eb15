"""Irregular two-sensor records: parsing, cleaning, batching."""
import json

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, Sampler

from .config import CFG, DATA

SENSORS = ("a", "b")


def read_lines(split):
    with open(DATA / f"{split}.jsonl") as fh:
        return [json.loads(line) for line in fh]


def to_arrays(record):
    out = {"query": np.asarray(record["query"], dtype=np.float64)}
    for s in SENSORS:
        out[s + "_time"] = np.asarray(record[s]["t"], dtype=np.float64)
        out[s + "_value"] = np.asarray([np.nan if v is None else v for v in record[s]["v"]], dtype=np.float64)
    if "truth" in record:
        out["truth"] = np.asarray([np.nan if v is None else v for v in record["truth"]], dtype=np.float64)
    return out


_stats = None


def statistics():
    """Mean and sample deviation of either sensor over all training readings."""
    global _stats
    if _stats is None:
        _stats = {}
        rows = [to_arrays(r) for r in read_lines("train")]
        for s in SENSORS:
            v = np.concatenate([r[s + "_value"] for r in rows])
            _stats[s] = (float(np.nanmean(v)), float(np.nanstd(v, ddof=1)))
    return _stats


class Clean:
    """Drop missing readings, sort by time, average readings with one time stamp."""

    def __call__(self, x):
        x = dict(x)
        for s in SENSORS:
            t, v = x[s + "_time"], x[s + "_value"]
            keep = ~np.isnan(v)
            t, inverse, counts = np.unique(t[keep], return_inverse=True, return_counts=True)
            x[s + "_value"] = np.bincount(inverse, weights=v[keep], minlength=len(t)) / counts
            x[s + "_time"] = t
        return x


class KeepRecent:
    def __init__(self, n):
        self.n = n

    def __call__(self, x):
        x = dict(x)
        for s in SENSORS:
            for f in ("_time", "_value"):
                x[s + f] = x[s + f][-self.n:]
        return x


class Standardize:
    """Values by their own sensor, truth by sensor a; time starts at the earliest event."""

    def __call__(self, x):
        x = dict(x)
        origin = min(x["a_time"][0], x["b_time"][0], x["query"][0])
        for k in ("a_time", "b_time", "query"):
            x[k] = (x[k] - origin) / CFG.data.time_unit
        st = statistics()
        for s in SENSORS:
            x[s + "_value"] = (x[s + "_value"] - st[s][0]) / st[s][1]
        if "truth" in x:
            x["truth"] = (x["truth"] - st["a"][0]) / st["a"][1]
        return x


class Finish:
    def __call__(self, x):
        out = {k: v.astype(np.float32) for k, v in x.items() if k != "truth"}
        if "truth" in x:
            known = ~np.isnan(x["truth"])
            out["target"] = np.stack([np.where(known, x["truth"], 0.0), known], axis=-1).astype(np.float32)
        return out


def make_transforms():
    return [Clean(), KeepRecent(CFG.data.max_events), Standardize(), Finish()]


class TrackDataset(Dataset):
    def __init__(self, split):
        self.records = read_lines(split)
        self.transforms = make_transforms()

    def __len__(self):
        return len(self.records)

    def __getitem__(self, i):
        x = to_arrays(self.records[i])
        for t in self.transforms:
            x = t(x)
        return x


def collate(samples):
    batch = {}
    for s in SENSORS:
        lens = torch.tensor([len(x[s + "_time"]) for x in samples])
        batch[s + "_len"] = lens
        for f in ("_time", "_value"):
            seqs = [torch.from_numpy(x[s + f]) for x in samples]
            batch[s + f] = torch.nn.utils.rnn.pad_sequence(seqs, batch_first=True)
    batch["query"] = torch.stack([torch.from_numpy(x["query"]) for x in samples])
    if "target" in samples[0]:
        batch["target"] = torch.stack([torch.from_numpy(x["target"]) for x in samples])
    return batch


class BucketSampler(Sampler):
    """Shuffles, sorts each chunk by length, and shuffles the batches again; new draw every epoch."""

    def __init__(self, lengths, batch_size, bucket, seed):
        self.lengths, self.batch_size, self.bucket, self.seed = np.asarray(lengths), batch_size, bucket, seed
        self.epoch = 0

    def __iter__(self):
        rng = np.random.RandomState(self.seed + self.epoch)
        order = rng.permutation(len(self.lengths))
        batches = []
        for i in range(0, len(order), self.bucket):
            chunk = order[i:i + self.bucket]
            chunk = chunk[np.argsort(-self.lengths[chunk], kind="stable")]
            batches += [chunk[j:j + self.batch_size].tolist() for j in range(0, len(chunk), self.batch_size)]
        for k in rng.permutation(len(batches)):
            yield batches[k]

    def __len__(self):
        full, rest = divmod(len(self.lengths), self.bucket)
        return full * -(-self.bucket // self.batch_size) + -(-rest // self.batch_size)


def make_loader(split):
    ds = TrackDataset(split)
    if split == "train":
        lengths = [len(r["a"]["t"]) + len(r["b"]["t"]) for r in ds.records]
        sampler = BucketSampler(lengths, CFG.data.batch_size, CFG.data.bucket, CFG.data.seed)
        return DataLoader(ds, batch_sampler=sampler, collate_fn=collate)
    return DataLoader(ds, batch_size=CFG.data.batch_size, shuffle=False, collate_fn=collate)
