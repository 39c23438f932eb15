"""Loss, optimizer, learning rate."""
import paddle
import paddle.nn.functional as F


def pairwise_loss(scores, size, stars, temperature, penalty):
    good = (stars > 0).astype(scores.dtype)
    bad = (stars == 0).astype(scores.dtype)
    weight = paddle.einsum("bi,bj->bij", good * stars.astype(scores.dtype) / 5.0, bad)
    gap = (scores.unsqueeze(2) - scores.unsqueeze(1)) / temperature
    ranking = -(weight * F.log_sigmoid(gap)).sum() / weight.sum()
    return {"loss": ranking + 0.5 * penalty * size.mean(), "ranking": ranking.detach()}


class WarmStairs(paddle.optimizer.lr.LRScheduler):
    """Linear warm-up, then a factor at each milestone."""

    def __init__(self, top, warmup, milestones, gamma):
        self.warmup, self.milestones, self.gamma = warmup, milestones, gamma
        super().__init__(top)

    def get_lr(self):
        if self.last_epoch < self.warmup:
            return self.base_lr * (self.last_epoch + 1) / self.warmup
        passed = sum(1 for m in self.milestones if self.last_epoch >= m)
        return self.base_lr * self.gamma ** passed


class AdagradW:
    """Adagrad whose weight decay does not pass through the accumulator."""

    def __init__(self, schedule, plain, decayed, start, eps, decay):
        self.schedule = schedule
        self.start, self.eps = start, eps
        self.entries = [(p, decay) for p in decayed] + [(p, 0.0) for p in plain]
        self.history = {}

    def get_lr(self):
        return self.schedule()

    def clear_grad(self):
        for p, _ in self.entries:
            p.clear_gradient(False)

    @paddle.no_grad()
    def step(self):
        rate = self.get_lr()
        for index, (p, decay) in enumerate(self.entries):
            if p.grad is None:
                continue
            total = self.history.get(index)
            if total is None:
                total = paddle.full_like(p, self.start)
            total = total + p.grad.square()
            self.history[index] = total
            p.set_value(p * (1.0 - rate * decay) - rate * p.grad / (total.sqrt() + self.eps))


def optimizer_for(net, ini):
    o = ini["optimizer"]
    milestones = [int(m) for m in o["milestones"].split(",")]
    stairs = WarmStairs(o.getfloat("lr"), o.getint("warmup"), milestones, o.getfloat("gamma"))
    decayed = [net.people.weight, net.items.weight]
    plain = [net.genres.weight, net.price.weight, net.price.bias, net.depth_logits, net.popularity]
    return AdagradW(stairs, plain, decayed, o.getfloat("initial_accumulator"), o.getfloat("eps"),
                    o.getfloat("weight_decay"))
