import torch


class Averager:
    """Exponential average of the student, quick at first, slow later."""

    def __init__(self, ceiling=0.99):
        self.ceiling = ceiling

    def decay(self, updates):
        return min(self.ceiling, (1.0 + updates) / (10.0 + updates))

    @torch.no_grad()
    def update(self, model):
        d = self.decay(float(model.updates))
        for t, s in zip(model.teacher.parameters(), model.student.parameters()):
            t.mul_(d).add_(s, alpha=1.0 - d)
        model.updates += 1
