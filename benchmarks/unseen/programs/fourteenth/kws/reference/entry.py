import torch
from torch.utils.data import DataLoader

from spotter.config import CFG
from spotter.data import KeywordClips, load_clip, pad_collate, read_words
from spotter.engine.losses import SmoothedCrossEntropy
from spotter.engine.metrics import spotting_scores
from spotter.engine.optim import WarmupPolyLR, param_groups
from spotter.engine.step import run_step
from spotter.frontend import build_pipeline
from spotter.nets import make_net

criterion = SmoothedCrossEntropy(CFG.train.smoothing, CFG.train.class_weights)


def build_model():
    return make_net(CFG.model.name, n_mels=CFG.audio.n_mels, n_classes=len(read_words()),
                    widths=CFG.model.widths, depths=CFG.model.depths, se_ratio=CFG.model.se_ratio,
                    dropout=CFG.model.dropout)


def transforms(split):
    return build_pipeline(CFG.audio, CFG.augment if split == "train" else None)


def build_dataset(split):
    return KeywordClips(split, transforms(split), CFG.audio, CFG.augment.max_shift if split == "train" else 0)


def build_dataloader(split):
    train = split == "train"
    return DataLoader(build_dataset(split), batch_size=CFG.train.batch_size, shuffle=train,
                      drop_last=train, collate_fn=pad_collate)


def loss(outputs, labels):
    return criterion(outputs, labels)


def metric(outputs, labels):
    return spotting_scores(outputs, labels, len(read_words()))


def build_optimizer(model):
    t = CFG.train
    return torch.optim.SGD(param_groups(model, t.lr, t.weight_decay, t.head_mult), lr=t.lr,
                           momentum=t.momentum, nesterov=True)


def build_scheduler(optimizer):
    t = CFG.train
    return WarmupPolyLR(optimizer, t.warmup_steps, t.total_steps, t.poly_power, t.end_ratio)


def train_step(model, optimizer, batch):
    return run_step(model, optimizer, batch, criterion, CFG.train.clip)


@torch.no_grad()
def predict(path, model):
    model.eval()
    wave = load_clip(path, CFG.audio)
    feats = transforms("val")(wave)
    probs = torch.softmax(model(feats.unsqueeze(0)), dim=-1)[0]
    score, idx = probs.max(0)
    word = read_words()[int(idx)]
    return {"probs": probs.numpy(), "score": float(score), "index": int(idx),
            "fired": float(word != "unknown" and float(score) > CFG.train.fire_at)}
