import torch
import torch.nn as nn

from .layers import MLP, CrossNet, FactorizationMachine, FeaturesLinear, FieldAware


class DeepFFM(nn.Module):
    def __init__(self, sizes, genres, dense, dim=8, ffm_dim=4, hidden=(32, 16), dropout=0.1):
        super().__init__()
        total, fields = sum(sizes), len(sizes)
        self.linear = FeaturesLinear(total, genres, dense)
        self.embedding = nn.Embedding(total, dim)
        self.genre_bag = nn.EmbeddingBag(genres, dim, mode="mean", padding_idx=0)
        self.fm = FactorizationMachine()
        self.ffm = FieldAware(total, fields, ffm_dim)
        deep_in = (fields + 1) * dim + dense
        self.cross = CrossNet(deep_in, 2)
        self.mlp = MLP(deep_in, hidden, dropout)
        self.out = nn.Linear(deep_in + hidden[-1], 1)
        self.bias = nn.Parameter(torch.zeros(1))
        self.reset_parameters()

    def reset_parameters(self):
        for m in self.modules():
            if isinstance(m, (nn.Embedding, nn.EmbeddingBag)):
                nn.init.normal_(m.weight, std=0.1)
                if m.padding_idx is not None:
                    with torch.no_grad():
                        m.weight[m.padding_idx].zero_()
            elif isinstance(m, nn.Linear):
                nn.init.kaiming_normal_(m.weight, a=0.25, nonlinearity="leaky_relu")
                nn.init.zeros_(m.bias)

    def forward(self, cats, dense, genres):
        emb = torch.cat([self.embedding(cats), self.genre_bag(genres).unsqueeze(1)], 1)
        deep = torch.cat([emb.flatten(1), dense], 1)
        deep = self.out(torch.cat([self.cross(deep), self.mlp(deep)], 1))
        return (self.linear(cats, dense, genres) + self.fm(emb) + self.ffm(cats) + deep + self.bias).squeeze(1)
