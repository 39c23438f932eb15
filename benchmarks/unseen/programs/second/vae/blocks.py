import paddle.nn as nn


def down(cin, cout):
    return nn.Conv2D(cin, cout, kernel_size=4, stride=2, padding=1), nn.BatchNorm2D(cout)


class Up(nn.Layer):
    """transposed convolution; norm and ReLU where asked for"""

    def __init__(self, cin, cout, norm):
        super().__init__()
        self.deconv = nn.Conv2DTranspose(cin, cout, kernel_size=4, stride=2, padding=1)
        self.norm = nn.BatchNorm2D(cout) if norm else None

    def forward(self, t):
        t = self.deconv(t)
        return t if self.norm is None else nn.functional.relu(self.norm(t))
