"""LightGCN (He et al. 2020) with book features and learned weights of the layers."""
import torch
from torch import nn


class Propagation(nn.Module):
    """One layer: every reader takes its books, every book its readers, over the edges of the graph."""

    def __init__(self, edges):
        super().__init__()
        readers, books, weight = edges
        self.register_buffer("readers", torch.from_numpy(readers), persistent=False)
        self.register_buffer("books", torch.from_numpy(books), persistent=False)
        self.register_buffer("weight", torch.from_numpy(weight)[:, None], persistent=False)

    def forward(self, reader_state, book_state):
        to_readers = torch.zeros_like(reader_state).index_add(0, self.readers, self.weight * book_state[self.books])
        to_books = torch.zeros_like(book_state).index_add(0, self.books, self.weight * reader_state[self.readers])
        return to_readers, to_books


class BookEncoder(nn.Module):
    def __init__(self, catalogue, dim, std):
        super().__init__()
        self.identity = nn.Embedding(len(catalogue.books), dim)
        self.genre = nn.Embedding(len(catalogue.genres), dim)
        self.price = nn.Linear(1, dim)
        self.register_buffer("genre_index", torch.from_numpy(catalogue.genre), persistent=False)
        self.register_buffer("price_value", torch.from_numpy(catalogue.price)[:, None], persistent=False)
        nn.init.normal_(self.identity.weight, std=std)
        nn.init.normal_(self.genre.weight, std=0.5 * std)
        nn.init.xavier_uniform_(self.price.weight, gain=0.5)
        nn.init.zeros_(self.price.bias)

    def forward(self):
        return self.identity.weight + self.genre(self.genre_index) + torch.tanh(self.price(self.price_value))


class LightGCN(nn.Module):
    def __init__(self, catalogue, config):
        super().__init__()
        self.layers = config.layers
        self.reader = nn.Embedding(len(catalogue.readers), config.dim)
        self.book = BookEncoder(catalogue, config.dim, config.embedding_std)
        self.propagate = Propagation(catalogue.edges())
        self.mix = nn.Parameter(torch.zeros(config.layers + 1))
        self.bias = nn.Parameter(torch.zeros(len(catalogue.books)))
        nn.init.normal_(self.reader.weight, std=config.embedding_std)

    def embeddings(self):
        readers, books = [self.reader.weight], [self.book()]
        for _ in range(self.layers):
            reader, book = self.propagate(readers[-1], books[-1])
            readers.append(reader)
            books.append(book)
        mix = torch.softmax(self.mix, dim=0)[:, None, None]
        return (mix * torch.stack(readers)).sum(dim=0), (mix * torch.stack(books)).sum(dim=0), books[0]

    def forward(self, readers, books):
        reader_final, book_final, book_ego = self.embeddings()
        scores = (reader_final[readers][:, None] * book_final[books]).sum(dim=-1) + self.bias[books]
        ego = self.reader.weight[readers].pow(2).sum(dim=-1) + book_ego[books].pow(2).sum(dim=-1).mean(dim=-1)
        return scores, ego
