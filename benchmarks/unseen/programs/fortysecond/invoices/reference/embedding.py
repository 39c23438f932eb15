import torch
from torch import nn

from .registry import CONFIG, MODULES


@MODULES.register
class LayoutEmbedding(nn.Module):
    """Hashed trigrams, the look of a word, and where it stands on the page."""

    def __init__(self, width, places):
        super().__init__()
        self.places = places
        self.grams = nn.Embedding(CONFIG["data"]["hash_size"], width, padding_idx=0)
        self.looks = nn.Linear(5, width, bias=False)
        self.x = nn.Embedding(places, width)
        self.y = nn.Embedding(places, width)
        self.wide = nn.Embedding(places, width)
        self.high = nn.Embedding(places, width)
        self.norm = nn.LayerNorm(width, eps=1e-6)

    def forward(self, grams, looks, boxes):
        number = (grams > 0).sum(dim=-1, keepdim=True).clamp(min=1)
        text = self.grams(grams).sum(dim=-2) / number
        left, top, right, bottom = boxes.unbind(dim=-1)
        place = self.x(left) + self.x(right) + self.y(top) + self.y(bottom)
        extent = self.wide((right - left).clamp(0, self.places - 1)) + self.high((bottom - top).clamp(0, self.places - 1))
        return self.norm(text + self.looks(looks) + place + extent)
