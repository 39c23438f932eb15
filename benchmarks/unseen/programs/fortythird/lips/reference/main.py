"""Lip reading: short film strips of mouths are spelled letter by letter."""
import re

import torch
import torch.nn as nn

from . import criterion, frames, letters
from .look import Look
from .remember import Remember, Stranger
from .spell import Speller

HIDDEN = 10


class LipReader(nn.Module):
    def __init__(self):
        super().__init__()
        self.look = Look()
        self.remember = Remember(16, HIDDEN)
        self.stranger = Stranger(2 * HIDDEN, len(frames.SPEAKERS))
        self.speller = Speller(2 * HIDDEN)

    def see(self, clip, lengths):
        real = (torch.arange(clip.shape[2]) < lengths[:, None]).to(clip.dtype)
        return self.remember(self.look(clip, real), lengths, real), real

    def forward(self, clip, lengths, given):
        seen, real = self.see(clip, lengths)
        spelled, looked = self.speller(seen, real, given)
        return {"letters": spelled, "looked": looked, "speaker": self.stranger(seen, real), "lengths": lengths}


def build_model():
    return LipReader()


def build_dataset(split):
    return frames.Clips(split)


def build_dataloader(split):
    return frames.loader(split)


def loss(outputs, labels):
    return criterion.total(outputs, labels)


def metric(outputs, labels):
    return criterion.rates(outputs, labels)


def build_optimizer(model):
    speller = list(model.speller.parameters())
    rest = [p for n, p in model.named_parameters() if not n.startswith("speller.")]
    return torch.optim.SGD([{"params": rest}, {"params": speller, "lr": 0.06}], lr=0.02, momentum=0.85,
                           nesterov=True, weight_decay=1e-3)


def build_scheduler(optimizer):
    return torch.optim.lr_scheduler.CyclicLR(optimizer, base_lr=[0.004, 0.012], max_lr=[0.02, 0.06], step_size_up=6,
                                             step_size_down=10, mode="exp_range", gamma=0.97, cycle_momentum=False)


def train_step(model, optimizer, batch):
    *facts, labels = batch
    optimizer.zero_grad()
    value = loss(model(*facts), labels)["loss"]
    value.backward()
    # eyes and speller are clipped each for itself
    nn.utils.clip_grad_norm_([p for n, p in model.named_parameters() if not n.startswith("speller.")], 1.0)
    nn.utils.clip_grad_norm_(model.speller.parameters(), 0.5)
    optimizer.step()
    return value


@torch.no_grad()
def predict(path, model):
    """A strip whose name ends with its number of frames."""
    n = int(re.search(r"_(\d+)\.png$", path).group(1))
    like = next(model.parameters())
    clip = torch.from_numpy(frames.prepare(path, n))[None].to(like.dtype)
    seen, real = model.see(clip, torch.tensor([n]))
    spelled = model.speller.greedy(seen, real)
    codes = [int(letter) for letter, _, _ in spelled]
    used = codes.index(letters.END) + 1 if letters.END in codes else len(codes)
    place = torch.stack([(where[0] * torch.arange(real.shape[1])).sum() for _, _, where in spelled[:used]])
    return {"word": letters.decode(codes), "sure": float(sum(s[0] for _, s, _ in spelled[:used]) / used),
            "frames": place.numpy()}
