"""HAN in Paddle."""
import paddle
import paddle.nn.functional as F
from paddle import nn

from . import init


def sequence_mask(lengths, size):
    return paddle.arange(size).unsqueeze(0) < lengths.unsqueeze(1)


class BiGRU(nn.Layer):
    def __init__(self, input_size, hidden_size, epsilon):
        super().__init__()
        self.gru = nn.GRU(input_size, hidden_size, direction="bidirect")
        self.norm = nn.LayerNorm(2 * hidden_size, epsilon=epsilon)
        init.gru_(self.gru)

    def forward(self, x, lengths):
        states, _ = self.gru(x, sequence_length=lengths)
        return self.norm(states)


class Attention(nn.Layer):
    def __init__(self, size, hidden, temperature=1.0):
        super().__init__()
        self.project = nn.Linear(size, hidden)
        self.context = self.create_parameter([hidden])
        self.scale = 1.0 / temperature
        init.linear_(self.project, uniform_gain=5 / 3)
        init.context_(self.context)

    def forward(self, states, mask):
        energy = F.tanh(self.project(states))
        scores = paddle.matmul(energy, self.context) * self.scale
        blocked = paddle.full_like(scores, -1e30)
        weights = F.softmax(paddle.where(mask, scores, blocked), axis=-1)
        pooled = paddle.matmul(weights.unsqueeze(1), states).squeeze(1)
        return pooled, weights


class HAN(nn.Layer):
    def __init__(self, n_words, n_classes, config):
        super().__init__()
        words, sents = 2 * config.word_hidden, 2 * config.sentence_hidden
        self.embedding = nn.Embedding(n_words, config.embedding, padding_idx=0)
        self.word_encoder = BiGRU(config.embedding, config.word_hidden, config.norm_epsilon)
        self.word_pool = Attention(words, config.attention, config.temperature)
        self.sentence_encoder = BiGRU(words, config.sentence_hidden, config.norm_epsilon)
        self.sentence_pool = Attention(sents, config.attention)
        self.dropout = nn.Dropout(config.dropout)
        self.hidden = nn.Linear(2 * sents, config.attention)
        self.classifier = nn.Linear(config.attention, n_classes)
        init.embedding_(self.embedding.weight)
        init.linear_(self.hidden)
        init.linear_(self.classifier)

    def encode_sentences(self, tokens, word_lengths):
        b, s, w = tokens.shape
        flat = tokens.reshape([b * s, w])
        lengths = paddle.clip(word_lengths.reshape([-1]), min=1)
        embedded = self.dropout(self.embedding(flat))
        states = self.word_encoder(embedded, lengths)
        vectors, weights = self.word_pool(states, sequence_mask(lengths, w))
        return vectors.reshape([b, s, -1]), weights.reshape([b, s, w])

    def encode_document(self, vectors, sentence_lengths):
        mask = sequence_mask(sentence_lengths, vectors.shape[1])
        states = self.sentence_encoder(self.dropout(vectors), sentence_lengths)
        attended, weights = self.sentence_pool(states, mask)
        keep = mask.astype(states.dtype).unsqueeze(-1)
        average = paddle.sum(states * keep, axis=1) / paddle.sum(keep, axis=1)
        return paddle.concat([attended, average], axis=-1), weights

    def forward(self, tokens, word_lengths, sentence_lengths):
        vectors, word_weights = self.encode_sentences(tokens, word_lengths)
        document, sentence_weights = self.encode_document(vectors, sentence_lengths)
        features = self.dropout(F.gelu(self.hidden(document)))
        return {
            "logits": self.classifier(features),
            "word_attention": word_weights,
            "sentence_attention": sentence_weights,
        }
