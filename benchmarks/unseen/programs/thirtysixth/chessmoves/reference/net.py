from torch import nn
from torch.nn import functional as F

from .attention import BoardAttention, FeedForward
from .heads import PolicyHead, ValueHead
from .layers import ConvNorm, Residual


class ChessNet(nn.Module):
    def __init__(self, channels=24, residuals=2, heads=4):
        super().__init__()
        self.stem = ConvNorm(18, channels, 3)
        self.tower = nn.Sequential(*[Residual(channels, 8) for _ in range(residuals)])
        self.attention = BoardAttention(channels, heads)
        self.mlp = FeedForward(channels, 2 * channels)
        self.policy = PolicyHead(channels, 16, cap=6.0)
        self.value = ValueHead(channels, 4, 32)
        for module in self.modules():
            if isinstance(module, nn.Conv2d):
                nn.init.kaiming_normal_(module.weight, mode="fan_out", nonlinearity="relu")
            elif isinstance(module, nn.Linear):
                nn.init.xavier_normal_(module.weight)
                if module.bias is not None:
                    nn.init.zeros_(module.bias)
        nn.init.normal_(self.attention.bias, std=0.2)

    def forward(self, planes, moves, mask):
        x = self.tower(F.mish(self.stem(planes)))
        squares = self.mlp(self.attention(x.flatten(2).transpose(1, 2)))
        board = squares.transpose(1, 2).reshape(x.shape)
        wdl, left = self.value(board)
        return {"policy": self.policy(squares, moves, mask), "wdl": wdl, "left": left}
