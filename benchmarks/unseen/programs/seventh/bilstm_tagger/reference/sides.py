import torch
import torch.nn.functional as F

from .config import cfg
from .data import TaggingDataset, chars, get_loader, word_vocab
from .evaluation import scores
from .model import Tagger


def build_model():
    return Tagger(cfg, len(word_vocab), len(chars))


def loss(outputs, labels):
    weight = outputs.new_ones(len(cfg.tags))
    weight[0] = cfg.o_weight
    return F.cross_entropy(outputs.reshape(-1, outputs.size(-1)), labels.reshape(-1), weight=weight, ignore_index=-100)


def metric(outputs, labels):
    return scores(outputs.argmax(-1).tolist(), labels.tolist())


def build_optimizer(model):
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim <= 1]
    return torch.optim.AdamW([{"params": decay, "weight_decay": cfg.weight_decay}, {"params": rest, "weight_decay": 0.0}], lr=cfg.lr, betas=cfg.betas, eps=cfg.eps)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.LambdaLR(optimizer, lambda step: min((step + 1) / cfg.warmup, (cfg.warmup / (step + 1)) ** 0.5))


def train_step(model, optimizer, batch):
    *inputs, labels = batch
    optimizer.zero_grad()
    value = loss(model(*inputs), labels)
    value.backward()
    torch.nn.utils.clip_grad_norm_(model.parameters(), cfg.clip)
    optimizer.step()
    return value


def build_dataset(split):
    return TaggingDataset(split)


def build_dataloader(split):
    return get_loader(split)
