import numpy as np
import paddle
from paddle.io import BatchSampler, DataLoader, Dataset

from .conf import CONFIG, HERE
from .tokens import PAD_ID, build_vocabulary, numericalize, split_sentences

DATA = HERE.parent / "data"
_vocabulary = {}


def load_tsv(split):
    numbers = {name: i for i, name in enumerate(CONFIG.loader.classes)}
    lines = (DATA / f"news_{split}.tsv").read_text(encoding="utf-8").splitlines()
    pairs = (line.split("\t", 1) for line in lines)
    return [(text, numbers[name]) for name, text in pairs]


def get_vocabulary():
    if not _vocabulary:
        texts = [text for text, _ in load_tsv("train")]
        _vocabulary.update(build_vocabulary(texts, CONFIG.text.min_count, CONFIG.text.vocabulary))
    return _vocabulary


def truncate(document):
    rows = document[: CONFIG.text.max_sentences]
    return [row[: CONFIG.text.max_words] for row in rows]


class NewsDataset(Dataset):
    def __init__(self, split):
        super().__init__()
        self.items = load_tsv(split)
        self.vocabulary = get_vocabulary()

    def __getitem__(self, index):
        text, label = self.items[index]
        document = [numericalize(sentence, self.vocabulary) for sentence in split_sentences(text)]
        return truncate(document), label

    def __len__(self):
        return len(self.items)


class LengthBatchSampler(BatchSampler):
    """Documents of similar size together; long ones first."""

    def __init__(self, dataset, batch_size):
        super().__init__(dataset=dataset, shuffle=False, batch_size=batch_size, drop_last=False)
        sizes = np.array([sum(map(len, dataset[i][0])) for i in range(len(dataset))])
        self.order = np.argsort(-sizes, kind="stable").tolist()

    def __iter__(self):
        for start in range(0, len(self.order), self.batch_size):
            yield self.order[start : start + self.batch_size]


def pad_batch(batch):
    documents = [sample[0] for sample in batch]
    n_sentences = max(map(len, documents))
    n_words = max(len(row) for document in documents for row in document)
    tokens = np.full((len(batch), n_sentences, n_words), PAD_ID, dtype=np.int64)
    lengths = np.zeros((len(batch), n_sentences), dtype=np.int64)
    for b, document in enumerate(documents):
        lengths[b, : len(document)] = [len(row) for row in document]
        for s, row in enumerate(document):
            tokens[b, s, : len(row)] = row
    return {
        "tokens": tokens,
        "word_lengths": lengths,
        "sentence_lengths": np.array([len(document) for document in documents], dtype=np.int64),
        "labels": np.array([sample[1] for sample in batch], dtype=np.int64),
    }


def make_loader(split):
    dataset = NewsDataset(split)
    if split == "train":
        sampler = LengthBatchSampler(dataset, CONFIG.loader.batch_size)
    else:
        sampler = BatchSampler(dataset, batch_size=CONFIG.loader.batch_size)
    return DataLoader(dataset, batch_sampler=sampler, collate_fn=pad_batch)
