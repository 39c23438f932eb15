import torch
from torch.nn.utils.rnn import pad_sequence
from torch.utils.data import DataLoader, Dataset

from .config import cfg
from .vocab import PAD, Vocab, char_vocab, normalise


def read_conll(path):
    sentences, words, tags = [], [], []
    with open(path, encoding="utf-8") as f:
        for line in f:
            line = line.rstrip("\n")
            if not line:
                if words:
                    sentences.append((words, tags))
                words, tags = [], []
            else:
                w, t = line.split("\t")
                words.append(w)
                tags.append(t)
    if words:
        sentences.append((words, tags))
    return sentences


train_sentences = read_conll(cfg.data / "train.conll")
word_vocab = Vocab((normalise(w) for s, _ in train_sentences for w in s), cfg.min_freq)
chars = char_vocab()


class TaggingDataset(Dataset):
    def __init__(self, split):
        self.sentences = read_conll(cfg.data / f"{split}.conll")

    def __len__(self):
        return len(self.sentences)

    def __getitem__(self, i):
        words, tags = self.sentences[i]
        word_ids = torch.tensor([word_vocab[normalise(w)] for w in words])
        char_ids = torch.full((len(words), cfg.max_word_len), PAD)
        for k, w in enumerate(words):
            ids = [chars[c] for c in w[: cfg.max_word_len]]
            char_ids[k, : len(ids)] = torch.tensor(ids)
        return word_ids, char_ids, torch.tensor([cfg.tags.index(t) for t in tags])


def collate(samples):
    words, char_ids, tags = zip(*samples)
    lengths = torch.tensor([len(w) for w in words])
    return (pad_sequence(words, batch_first=True, padding_value=PAD), pad_sequence(char_ids, batch_first=True, padding_value=PAD),
            lengths, pad_sequence(tags, batch_first=True, padding_value=-100))


def get_loader(split):
    return DataLoader(TaggingDataset(split), batch_size=cfg.batch_size, shuffle=(split == "train"), collate_fn=collate)
