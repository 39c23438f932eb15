import torch
from torch import nn

from .config import load
from .modules.crf import Chain
from .modules.embed import WordRepresentation
from .modules.encoder import ContextEncoder
from .reader import Encoder


class Tagger(nn.Module):
    def __init__(self, cfg=None, vocabularies=None):
        super().__init__()
        cfg = cfg or load().model
        v = vocabularies or Encoder()
        self.represent = WordRepresentation(len(v.words), len(v.chars), cfg)
        self.encode = ContextEncoder(cfg.word_dim + cfg.char_filters, cfg)
        self.chain = Chain(2 * cfg.hidden, v.tags.items)
        self.apply(self.reset)

    @staticmethod
    def reset(module):
        if isinstance(module, nn.Embedding):
            bound = (3 / module.embedding_dim) ** 0.5
            nn.init.uniform_(module.weight, -bound, bound)
            with torch.no_grad():
                module.weight[module.padding_idx].zero_()
        elif isinstance(module, nn.Linear):
            nn.init.xavier_uniform_(module.weight)
            if module.bias is not None:
                nn.init.zeros_(module.bias)
        elif isinstance(module, nn.GRU):
            for name, p in module.named_parameters():
                if "weight_hh" in name:
                    nn.init.xavier_uniform_(p)
        for name in ("distance", "transitions", "final"):
            p = getattr(module, name, None)
            if p is not None:
                nn.init.normal_(p, std=0.1)

    def forward(self, words, chars):
        mask = words != 0
        return self.chain(self.encode(self.represent(words, chars), mask), mask)
