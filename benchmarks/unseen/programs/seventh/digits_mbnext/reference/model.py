import torch.nn as nn

from .layers import ConvBnAct, MBConv, NeXtBlock, init_weights

# (kind, repeats, kernel, stride, expansion, channels)
ARCH = [("mb", 1, 3, 1, 1, 16), ("mb", 2, 3, 2, 3, 24), ("mb", 2, 5, 2, 3, 32), ("next", 2, 7, 1, 4, 32)]


class DigitNet(nn.Module):
    def __init__(self, arch=ARCH, stem=12, head=64, num_classes=10, se_ratio=0.25, drop_path_rate=0.25, drop_rate=0.2, layer_scale=0.1):
        super().__init__()
        self.conv_stem = ConvBnAct(1, stem, 3, 2)
        total, index, inp, blocks = sum(a[1] for a in arch), 0, stem, []
        for kind, repeats, kernel, stride, expand, out in arch:
            for i in range(repeats):
                rate = drop_path_rate * index / (total - 1)
                if kind == "mb":
                    blocks.append(MBConv(inp, out, kernel, stride if i == 0 else 1, expand, se_ratio, rate))
                else:
                    blocks.append(NeXtBlock(out, kernel, rate, layer_scale))
                inp, index = out, index + 1
        self.blocks = nn.Sequential(*blocks)
        self.conv_head = ConvBnAct(inp, head, 1)
        self.pool = nn.AdaptiveAvgPool2d(1)
        self.dropout = nn.Dropout(drop_rate)
        self.classifier = nn.Linear(head, num_classes)
        init_weights(self)

    def forward(self, x):
        x = self.pool(self.conv_head(self.blocks(self.conv_stem(x)))).flatten(1)
        return self.classifier(self.dropout(x))
