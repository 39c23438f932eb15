from torch import nn
from torch.nn import functional as F

GROUPS = 4


class BasicBlock(nn.Module):
    def __init__(self, cin, cout, stride=1):
        super().__init__()
        self.conv1 = nn.Conv2d(cin, cout, 3, stride, 1, bias=False)
        self.norm1 = nn.GroupNorm(GROUPS, cout)
        self.conv2 = nn.Conv2d(cout, cout, 3, 1, 1, bias=False)
        self.norm2 = nn.GroupNorm(GROUPS, cout)
        self.shortcut = nn.Sequential()
        if stride != 1 or cin != cout:
            self.shortcut = nn.Sequential(nn.Conv2d(cin, cout, 1, stride, bias=False), nn.GroupNorm(GROUPS, cout))

    def forward(self, x):
        out = F.relu(self.norm1(self.conv1(x)))
        out = self.norm2(self.conv2(out))
        return F.relu(out + self.shortcut(x))


class Backbone(nn.Module):
    """Features of strides 4, 8 and 16."""

    def __init__(self, widths):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 3, 2, 1, bias=False), nn.GroupNorm(GROUPS, widths[0]), nn.ReLU(inplace=True)
        )
        self.layer1 = BasicBlock(widths[0], widths[1], 2)
        self.layer2 = BasicBlock(widths[1], widths[2], 2)
        self.layer3 = BasicBlock(widths[2], widths[3], 2)

    def forward(self, x):
        c1 = self.layer1(self.stem(x))
        c2 = self.layer2(c1)
        return c1, c2, self.layer3(c2)
