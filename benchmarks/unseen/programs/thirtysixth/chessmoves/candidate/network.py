from paddle import nn

from .mixing import SquareMixer
from .outcome import MoveScores, Result
from .tower import Tower


class MoveNet(nn.Layer):
    def __init__(self, width=24, depth=2, heads=4):
        super().__init__()
        self.tower = Tower(18, width, depth)
        self.mixer = SquareMixer(width, heads)
        self.result = Result(width)
        self.scores = MoveScores(width)

    def forward(self, planes, moves, mask):
        features = self.tower(planes)
        b, c = features.shape[:2]
        squares = self.mixer(features.reshape([b, c, 64]).transpose([0, 2, 1]))
        wdl, left = self.result(squares.transpose([0, 2, 1]).reshape([b, c, 8, 8]))
        return {"policy": self.scores(squares, moves, mask), "wdl": wdl, "left": left}
