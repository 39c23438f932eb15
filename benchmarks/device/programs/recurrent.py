"""Rows of digits as sequences: cuDNN's recurrent layers, packed lengths, CTC; Adam."""

import numpy as np
import torch
import torch.nn.functional as F
from sklearn.datasets import load_digits
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


class Net(nn.Module):
    def __init__(self):
        super().__init__()
        self.down = nn.Conv1d(8, 24, 3, padding=1)
        self.lstm = nn.LSTM(24, 32, num_layers=2, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(64, 32, batch_first=True)
        self.head = nn.Linear(32, 11)

    def forward(self, rows):
        x = F.elu(self.down(rows.transpose(1, 2)), alpha=0.5).transpose(1, 2)
        x, _ = self.lstm(x)
        x, _ = self.gru(x)
        return F.log_softmax(self.head(x), -1)


def build_model():
    return Net()


def build_dataset(split):
    digits = load_digits()
    begin = 0 if split == "train" else 300
    pictures = digits.images[begin : begin + 120].astype("float32") / 16
    rows = torch.from_numpy(pictures.reshape(40, 24, 8))
    return TensorDataset(rows, torch.from_numpy(digits.target[begin : begin + 120].reshape(40, 3).astype("int64") + 1))


def build_dataloader(split):
    return DataLoader(build_dataset(split), 8)


def loss(outputs, labels):
    lengths = torch.full((len(outputs),), outputs.shape[1], dtype=torch.long)
    return F.ctc_loss(outputs.transpose(0, 1), labels, lengths, torch.full_like(lengths, 3), blank=0)


def metric(outputs, labels):
    best = outputs.argmax(-1).cpu().numpy()
    right = 0
    for row, wanted in zip(best, labels.cpu().numpy()):
        read = [int(c) for i, c in enumerate(row) if c and (i == 0 or row[i - 1] != c)]
        right += read == [int(c) for c in wanted]
    return {"exact": right / len(best), "blank": float(np.mean(best == 0))}


def build_optimizer(model):
    return torch.optim.Adam(model.parameters(), lr=3e-3, betas=(0.9, 0.98), eps=1e-9)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.StepLR(optimizer, 2, 0.5)
