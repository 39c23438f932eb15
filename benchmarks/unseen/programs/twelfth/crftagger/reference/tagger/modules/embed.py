import torch
from torch import nn


class CharCNN(nn.Module):
    """A vector a word from its characters: convolution, maximum over the true characters."""

    def __init__(self, vocabulary, dim, filters, kernel):
        super().__init__()
        self.embed = nn.Embedding(vocabulary, dim, padding_idx=0)
        self.conv = nn.Conv1d(dim, filters, kernel, padding=kernel // 2)

    def forward(self, chars):
        b, t, c = chars.shape
        flat = chars.view(b * t, c)
        x = self.conv(self.embed(flat).transpose(1, 2))
        x = x.masked_fill((flat == 0).unsqueeze(1), -1e4).max(-1)[0]
        x = torch.tanh(x) * (flat != 0).any(-1, keepdim=True).to(x.dtype)
        return x.view(b, t, -1)


class WordRepresentation(nn.Module):
    def __init__(self, words, chars, cfg):
        super().__init__()
        self.words = nn.Embedding(words, cfg.word_dim, padding_idx=0)
        self.chars = CharCNN(chars, cfg.char_dim, cfg.char_filters, cfg.kernel)
        self.gate = nn.Linear(cfg.word_dim + cfg.char_filters, cfg.word_dim + cfg.char_filters)
        self.drop = nn.Dropout(cfg.dropout)

    def forward(self, words, chars):
        x = torch.cat([self.words(words), self.chars(chars)], -1)
        return self.drop(x * torch.sigmoid(self.gate(x)))
