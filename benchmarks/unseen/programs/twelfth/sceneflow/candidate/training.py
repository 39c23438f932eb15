import paddle

from settings import SETTINGS


class FlooredStep(paddle.optimizer.lr.LRScheduler):
    """Falls by `gamma` every few steps and stays at `lowest`."""

    def __init__(self, base, gamma, every, lowest):
        self.gamma, self.every, self.lowest = gamma, every, lowest
        super().__init__(learning_rate=base)

    def get_lr(self):
        return max(self.base_lr * self.gamma ** (self.last_epoch // self.every), self.lowest)


def adam(model, cfg=SETTINGS["optim"]):
    matrices = [p for p in model.parameters() if p.ndim > 1]
    vectors = [p for p in model.parameters() if p.ndim <= 1]
    return paddle.optimizer.Adam(
        learning_rate=FlooredStep(cfg["lr"], cfg["gamma"], cfg["every"], cfg["lowest"]),
        beta1=cfg["beta1"],
        beta2=cfg["beta2"],
        epsilon=cfg["epsilon"],
        parameters=[
            {"params": matrices, "weight_decay": cfg["weight_decay"]},
            {"params": vectors, "weight_decay": 0.0},
        ],
    )
