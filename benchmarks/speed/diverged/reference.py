"""ResNet-50, as torchvision has it."""

import torch
from torch import nn


class Bottleneck(nn.Module):
    def __init__(self, inside, width, stride=1, downsample=None):
        super().__init__()
        self.conv1, self.bn1 = nn.Conv2d(inside, width, 1, bias=False), nn.BatchNorm2d(width)
        self.conv2, self.bn2 = nn.Conv2d(width, width, 3, stride, 1, bias=False), nn.BatchNorm2d(width)
        self.conv3, self.bn3 = nn.Conv2d(width, width * 4, 1, bias=False), nn.BatchNorm2d(width * 4)
        self.relu, self.downsample = nn.ReLU(), downsample

    def forward(self, x):
        out = self.relu(self.bn1(self.conv1(x)))
        out = self.relu(self.bn2(self.conv2(out)))
        out = self.bn3(self.conv3(out))
        if self.downsample is not None:
            x = self.downsample(x)
        return self.relu(out + x)


class ResNet(nn.Module):
    def __init__(self, depths=(3, 4, 6, 3), classes=1000):
        super().__init__()
        self.inside = 64
        self.conv1, self.bn1, self.relu = nn.Conv2d(3, 64, 7, 2, 3, bias=False), nn.BatchNorm2d(64), nn.ReLU()
        self.maxpool = nn.MaxPool2d(3, 2, 1)
        self.layer1 = self.stack(64, depths[0], 1)
        self.layer2 = self.stack(128, depths[1], 2)
        self.layer3 = self.stack(256, depths[2], 2)
        self.layer4 = self.stack(512, depths[3], 2)
        self.avgpool, self.fc = nn.AdaptiveAvgPool2d(1), nn.Linear(2048, classes)

    def stack(self, width, depth, stride):
        blocks = []
        for number in range(depth):
            down = None
            if number == 0:
                down = nn.Sequential(nn.Conv2d(self.inside, width * 4, 1, stride, bias=False), nn.BatchNorm2d(width * 4))
            blocks.append(Bottleneck(self.inside, width, stride if number == 0 else 1, down))
            self.inside = width * 4
        return nn.Sequential(*blocks)

    def forward(self, x):
        x = self.maxpool(self.relu(self.bn1(self.conv1(x))))
        x = self.layer4(self.layer3(self.layer2(self.layer1(x))))
        return self.fc(torch.flatten(self.avgpool(x), 1))


def build_model():
    torch.manual_seed(0)
    return ResNet()
