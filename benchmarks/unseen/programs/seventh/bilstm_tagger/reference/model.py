import math

import torch
import torch.nn as nn
import torch.nn.functional as F
from torch.nn.utils.rnn import pack_padded_sequence, pad_packed_sequence


class CharCNN(nn.Module):
    """Convolutions of several widths over a word's characters, max over time, then a highway layer."""

    def __init__(self, n_chars, dim, filters, widths):
        super().__init__()
        self.embedding = nn.Embedding(n_chars, dim, padding_idx=0)
        self.convs = nn.ModuleList([nn.Conv1d(dim, filters, w, padding=w // 2) for w in widths])
        self.out_dim = filters * len(widths)
        self.transform = nn.Linear(self.out_dim, self.out_dim)
        self.gate = nn.Linear(self.out_dim, self.out_dim)

    def forward(self, chars):
        b, t, c = chars.shape
        flat = chars.view(b * t, c)
        x = self.embedding(flat).transpose(1, 2)
        empty = (flat == 0).unsqueeze(1)
        feats = []
        for conv in self.convs:
            h = conv(x)[:, :, :c].masked_fill(empty, -1e4)
            feats.append(torch.tanh(h.max(dim=2)[0]))
        x = torch.cat(feats, dim=1)
        g = torch.sigmoid(self.gate(x))
        x = g * F.relu(self.transform(x)) + (1 - g) * x
        return x.view(b, t, -1)


class MaskedAttention(nn.Module):
    def __init__(self, dim, attn_dim):
        super().__init__()
        self.query = nn.Linear(dim, attn_dim)
        self.key = nn.Linear(dim, attn_dim, bias=False)
        self.value = nn.Linear(dim, dim)
        self.norm = nn.LayerNorm(dim, eps=1e-6)

    def forward(self, x, mask):
        scores = self.query(x) @ self.key(x).transpose(1, 2) / math.sqrt(self.query.out_features)
        scores = scores.masked_fill(~mask[:, None, :], float("-inf"))
        return self.norm(x + scores.softmax(-1) @ self.value(x))


def run_packed(rnn, x, lengths):
    packed = pack_padded_sequence(x, lengths.cpu(), batch_first=True, enforce_sorted=False)
    out, state = rnn(packed)
    return pad_packed_sequence(out, batch_first=True, total_length=x.size(1))[0], state


class Tagger(nn.Module):
    def __init__(self, cfg, n_words, n_chars):
        super().__init__()
        self.word_embedding = nn.Embedding(n_words, cfg.word_dim, padding_idx=0)
        self.char_cnn = CharCNN(n_chars, cfg.char_dim, cfg.char_filters, cfg.char_widths)
        self.dropout = nn.Dropout(cfg.dropout)
        d = 2 * cfg.hidden
        self.lstm = nn.LSTM(cfg.word_dim + self.char_cnn.out_dim, cfg.hidden, batch_first=True, bidirectional=True)
        self.gru = nn.GRU(d, cfg.hidden, batch_first=True, bidirectional=True)
        self.context = nn.Linear(2 * d, d)
        self.attention = MaskedAttention(d, cfg.attn_dim)
        self.hidden2tag = nn.Sequential(nn.Linear(d, cfg.hidden), nn.GELU(), nn.Dropout(cfg.dropout), nn.Linear(cfg.hidden, len(cfg.tags)))
        self.reset_parameters()

    def reset_parameters(self):
        for emb in (self.word_embedding, self.char_cnn.embedding):
            bound = math.sqrt(3.0 / emb.embedding_dim)
            nn.init.uniform_(emb.weight, -bound, bound)
            with torch.no_grad():
                emb.weight[0].zero_()
        for name, p in self.named_parameters():
            if "weight_ih" in name or "weight_hh" in name:
                nn.init.xavier_uniform_(p)
            elif "bias_ih" in name or "bias_hh" in name:
                nn.init.zeros_(p)
                if "lstm" in name and "bias_ih" in name:
                    n = p.numel() // 4
                    with torch.no_grad():
                        p[n : 2 * n].fill_(1.0)          # forget gate
        for m in self.modules():
            if isinstance(m, (nn.Linear, nn.Conv1d)):
                nn.init.xavier_uniform_(m.weight)
                if m.bias is not None:
                    nn.init.zeros_(m.bias)
        nn.init.constant_(self.char_cnn.gate.bias, -2.0)     # carry at the beginning

    def forward(self, words, chars, lengths):
        mask = torch.arange(words.size(1), device=words.device)[None, :] < lengths[:, None]
        x = torch.cat([self.word_embedding(words), self.char_cnn(chars)], dim=-1)
        h, (hn, _) = run_packed(self.lstm, self.dropout(x), lengths)
        g, _ = run_packed(self.gru, self.dropout(h), lengths)
        h = h + g
        m = mask.unsqueeze(-1).to(h.dtype)
        mean = (h * m).sum(1) / lengths[:, None].to(h.dtype)
        ends = torch.cat([hn[0], hn[1]], dim=-1)
        gate = torch.sigmoid(self.context(torch.cat([mean, ends], dim=-1)))
        h = h * gate.unsqueeze(1)
        h = self.attention(h, mask)
        return self.hidden2tag(self.dropout(h)) * m
