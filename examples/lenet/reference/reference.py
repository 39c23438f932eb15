"""LeNet in PyTorch, as section 2.1 of the migration guide has it."""

import torch
from torch import nn


class LeNet(nn.Module):
    """Images, float ``[N, 1, 28, 28]`` -> logits, float ``[N, num_classes]``."""

    def __init__(self, num_classes=10):
        super().__init__()
        self.num_classes = num_classes
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 3, stride=1, padding=1),
            nn.ReLU(),
            nn.MaxPool2d(2, 2),
            nn.Conv2d(6, 16, 5, stride=1, padding=0),
            nn.ReLU(),
            nn.MaxPool2d(2, 2),
        )
        self.fc = nn.Sequential(nn.Linear(400, 120), nn.Linear(120, 84), nn.Linear(84, num_classes))

    def forward(self, inputs):
        x = self.features(inputs)
        x = torch.flatten(x, 1)
        return self.fc(x)


def build_model():
    return LeNet()
