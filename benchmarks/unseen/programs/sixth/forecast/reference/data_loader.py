import csv
import math
from datetime import datetime
from pathlib import Path

import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


def read_csv(path):
    """Dates and values; gaps are filled from the last value before them."""
    dates, rows = [], []
    with open(path, newline="") as f:
        reader = csv.reader(f)
        next(reader)
        for line in reader:
            dates.append(datetime.strptime(line[0], "%Y-%m-%d %H:%M:%S"))
            rows.append([float(cell) if cell else math.nan for cell in line[1:]])
    values = np.array(rows)
    for i in range(1, len(values)):
        gap = np.isnan(values[i])
        values[i, gap] = values[i - 1, gap]
    return dates, values


def time_features(dates):
    """Hour of day, day of week, day of month, day of year, each in [-0.5, 0.5]."""
    feats = [
        [d.hour / 23.0 - 0.5, d.weekday() / 6.0 - 0.5, (d.day - 1) / 30.0 - 0.5, (d.timetuple().tm_yday - 1) / 365.0 - 0.5]
        for d in dates
    ]
    return np.array(feats)


class StandardScaler:
    def fit(self, data):
        self.mean = data.mean(0)
        self.std = data.std(0)
        return self

    def transform(self, data):
        return (data - self.mean) / self.std


class StationDataset(Dataset):
    def __init__(self, args, flag):
        dates, values = read_csv(Path(__file__).parent / "data" / "station.csv")
        n = len(values)
        n_train, n_test = int(n * args.split[0]), int(n * args.split[2])
        n_val = n - n_train - n_test
        border1 = {"train": 0, "val": n_train - args.seq_len, "test": n - n_test - args.seq_len}[flag]
        border2 = {"train": n_train, "val": n_train + n_val, "test": n}[flag]
        scaler = StandardScaler().fit(values[:n_train])
        self.data = scaler.transform(values)[border1:border2].astype(np.float32)
        self.stamp = time_features(dates)[border1:border2].astype(np.float32)
        self.seq_len, self.pred_len = args.seq_len, args.pred_len

    def __getitem__(self, index):
        end = index + self.seq_len
        x = torch.from_numpy(self.data[index:end])
        y = torch.from_numpy(self.data[end : end + self.pred_len])
        return x, torch.from_numpy(self.stamp[index:end]), y

    def __len__(self):
        return len(self.data) - self.seq_len - self.pred_len + 1


def get_loader(args, flag):
    train = flag == "train"
    return DataLoader(StationDataset(args, flag), args.batch_size, shuffle=train, drop_last=train)
