"""Hierarchical attention network: words make sentences, sentences make a document."""
import torch
from torch import nn
from torch.nn import functional as F

from .layers import AttentionPool, Recurrent, length_mask


class HierarchicalClassifier(nn.Module):
    def __init__(self, vocabulary, classes, config):
        super().__init__()
        self.embedding = nn.Embedding(vocabulary, config.embedding, padding_idx=0)
        self.word_encoder = Recurrent(config.embedding, config.word_hidden, config.norm_eps)
        self.word_pool = AttentionPool(2 * config.word_hidden, config.attention, config.temperature)
        self.sentence_encoder = Recurrent(2 * config.word_hidden, config.sentence_hidden, config.norm_eps)
        self.sentence_pool = AttentionPool(2 * config.sentence_hidden, config.attention, 1.0)
        self.dropout = nn.Dropout(config.dropout)
        self.hidden = nn.Linear(4 * config.sentence_hidden, config.attention)
        self.classifier = nn.Linear(config.attention, classes)
        self.reset()

    def reset(self):
        nn.init.normal_(self.embedding.weight, std=0.1)
        with torch.no_grad():
            self.embedding.weight[0].zero_()
        for encoder in (self.word_encoder, self.sentence_encoder):
            for name, parameter in encoder.gru.named_parameters():
                if name.startswith("weight_hh"):
                    nn.init.orthogonal_(parameter, gain=0.8)
                elif name.startswith("weight_ih"):
                    nn.init.xavier_uniform_(parameter)
                else:
                    nn.init.zeros_(parameter)
        for pool in (self.word_pool, self.sentence_pool):
            nn.init.xavier_uniform_(pool.project.weight, gain=5 / 3)
            nn.init.zeros_(pool.project.bias)
            nn.init.uniform_(pool.context, -0.5, 0.5)
        for layer in (self.hidden, self.classifier):
            nn.init.xavier_normal_(layer.weight)
            nn.init.zeros_(layer.bias)

    def forward(self, tokens, word_lengths, sentence_lengths):
        documents, count, width = tokens.shape
        flat = tokens.reshape(documents * count, width)
        lengths = word_lengths.reshape(-1).clamp(min=1)          # padded sentences hold one padded word
        states = self.word_encoder(self.dropout(self.embedding(flat)), lengths)
        vectors, word_weights = self.word_pool(states, length_mask(lengths, width))
        vectors = vectors.reshape(documents, count, -1)

        mask = length_mask(sentence_lengths, count)
        states = self.sentence_encoder(self.dropout(vectors), sentence_lengths)
        attended, sentence_weights = self.sentence_pool(states, mask)
        keep = mask.unsqueeze(-1).to(states.dtype)
        mean = (states * keep).sum(dim=1) / keep.sum(dim=1)
        features = self.dropout(F.gelu(self.hidden(torch.cat([attended, mean], dim=-1))))
        return {
            "logits": self.classifier(features),
            "word_attention": word_weights.reshape(documents, count, width),
            "sentence_attention": sentence_weights,
        }
