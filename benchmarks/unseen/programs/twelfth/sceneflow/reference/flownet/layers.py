import torch
from torch import nn

from .pointops import farthest_point_sample, gather_points, knn


class ConvBNReLU(nn.Sequential):
    def __init__(self, cin, cout):
        super().__init__(
            nn.Conv2d(cin, cout, 1, bias=False),
            nn.BatchNorm2d(cout, eps=1e-3),
            nn.ReLU(inplace=True),
        )


class SetConv(nn.Module):
    """Sampling, grouping, a shared MLP and a maximum over the group."""

    def __init__(self, count, k, cin, widths):
        super().__init__()
        self.count, self.k = count, k
        self.mlp = nn.ModuleList()
        last = cin + 3
        for width in widths:
            self.mlp.append(ConvBNReLU(last, width))
            last = width

    def forward(self, xyz, feats):
        index = farthest_point_sample(xyz, self.count)
        centre = gather_points(xyz, index)
        group = knn(self.k, centre, xyz)
        offset = gather_points(xyz, group) - centre.unsqueeze(2)
        near = gather_points(feats.transpose(1, 2), group)
        x = torch.cat([offset, near], -1).permute(0, 3, 1, 2)      # [B, C, M, k]
        for layer in self.mlp:
            x = layer(x)
        return centre, x.max(-1)[0]


class WeightNet(nn.Module):
    """Weights of a continuous convolution as a function of the offset."""

    def __init__(self, cout, hidden=8):
        super().__init__()
        self.fc1 = nn.Linear(3, hidden)
        self.fc2 = nn.Linear(hidden, cout)

    def forward(self, offset):
        return torch.relu(self.fc2(torch.relu(self.fc1(offset))))


class CostVolume(nn.Module):
    def __init__(self, cin, width, k, slope):
        super().__init__()
        self.k = k
        self.lift1 = nn.Conv2d(2 * cin + 3, width, 1)
        self.lift2 = nn.Conv2d(width, width, 1)
        self.act = nn.LeakyReLU(slope)
        self.weight_across = WeightNet(width)
        self.weight_self = WeightNet(width)

    def forward(self, xyz1, xyz2, feats1, feats2):
        # point to patch
        index = knn(self.k, xyz1, xyz2)
        offset = gather_points(xyz2, index) - xyz1.unsqueeze(2)
        near = gather_points(feats2.transpose(1, 2), index)
        own = feats1.transpose(1, 2).unsqueeze(2).expand(-1, -1, self.k, -1)
        x = torch.cat([own, near, offset], -1).permute(0, 3, 1, 2)
        x = self.act(self.lift1(x))
        x = self.act(self.lift2(x)).permute(0, 2, 3, 1)
        cost = (self.weight_across(offset) * x).sum(2)
        # patch to patch
        index = knn(self.k, xyz1, xyz1)
        offset = gather_points(xyz1, index) - xyz1.unsqueeze(2)
        cost = (self.weight_self(offset) * gather_points(cost, index)).sum(2)
        return cost.transpose(1, 2)
