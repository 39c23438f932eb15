import torch


class SwitchEma:
    """Running average of the weights that is written back every few steps."""

    def __init__(self, model, cfg):
        self.cfg = cfg
        self.steps = 0
        self.shadow = {n: p.detach().clone() for n, p in model.named_parameters()}

    @torch.no_grad()
    def update(self, model):
        self.steps += 1
        decay = min(self.cfg.decay, self.steps / (self.steps + self.cfg.warmup))
        for name, p in model.named_parameters():
            self.shadow[name].mul_(decay).add_(p, alpha=1.0 - decay)
        if self.steps % self.cfg.sync_every == 0:
            for name, p in model.named_parameters():
                p.copy_(self.shadow[name])
