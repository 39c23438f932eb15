import math

import paddle
import paddle.nn.functional as F
from paddle import nn
from paddle.nn.initializer import Constant, Normal, Uniform


class BookGraph(nn.Layer):
    """Readers and books in one table of states; a layer of the graph is a product with the adjacency matrix."""

    def __init__(self, shelf):
        super().__init__()
        settings = shelf.ini["model"]
        width, std = settings.getint("dim"), settings.getfloat("embedding_std")
        self.depth = settings.getint("layers")
        people, books = len(shelf.people), len(shelf.titles)
        self.people = nn.Embedding(people, width, weight_attr=Normal(0.0, std))
        self.items = nn.Embedding(books, width, weight_attr=Normal(0.0, std))
        self.genres = nn.Embedding(len(shelf.genre_names), width, weight_attr=Normal(0.0, std / 2))
        limit = 0.5 * math.sqrt(6.0 / (1 + width))
        self.price = nn.Linear(1, width, weight_attr=Uniform(-limit, limit), bias_attr=Constant(0.0))
        self.depth_logits = self.create_parameter([self.depth + 1], default_initializer=Constant(0.0))
        self.popularity = self.create_parameter([books], default_initializer=Constant(0.0))
        self.register_buffer("adjacency", paddle.to_tensor(shelf.adjacency()), persistable=False)
        self.register_buffer("genre_of", paddle.to_tensor(shelf.genre), persistable=False)
        self.register_buffer("price_of", paddle.to_tensor(shelf.price.astype("float32")), persistable=False)

    def book_states(self):
        return self.items.weight + self.genres(self.genre_of) + F.tanh(self.price(self.price_of.unsqueeze(1)))

    def states(self):
        """Final states of readers and books, and the books' own."""
        own = self.book_states()
        person, book = self.people.weight, own
        share = F.softmax(self.depth_logits, axis=0)
        final_person, final_book = share[0] * person, share[0] * book
        for k in range(self.depth):
            person, book = paddle.matmul(self.adjacency, book), paddle.matmul(self.adjacency, person, transpose_x=True)
            final_person = final_person + share[k + 1] * person
            final_book = final_book + share[k + 1] * book
        return final_person, final_book, own

    def forward(self, readers, books):
        person, book, own = self.states()
        mine = F.embedding(readers, person)
        offered = F.embedding(books, book)
        scores = paddle.einsum("bd,bcd->bc", mine, offered) + self.popularity[books]
        size = self.people(readers).square().sum(-1) + F.embedding(books, own).square().sum(-1).mean(-1)
        return scores, size
