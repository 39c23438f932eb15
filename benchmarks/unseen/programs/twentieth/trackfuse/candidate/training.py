import paddle

from .criteria import BetaNLL, scores
from .settings import TRAIN

criterion = BetaNLL()


def lr_factor(done):
    n = done + 1
    return n / TRAIN["warmup"] if n < TRAIN["warmup"] else (TRAIN["warmup"] / n) ** 0.5


class Ema:
    def __init__(self, net, decay):
        self.net_decay, self.n = decay, 0
        self.mean = [p.detach().clone() for p in net.parameters()]

    def update(self, net):
        self.n += 1
        keep = min(self.net_decay, (self.n + 1) / (self.n + 10))
        with paddle.no_grad():
            for i, p in enumerate(net.parameters()):
                self.mean[i] = keep * self.mean[i] + (1 - keep) * p.detach()

    def distance(self, net):
        with paddle.no_grad():
            parts = [(p.detach() - m).square().sum() for p, m in zip(net.parameters(), self.mean)]
            return paddle.add_n(parts).sqrt()

    class _Swap:
        def __init__(self, net, values):
            self.net, self.values = net, values

        def __enter__(self):
            self.kept = [p.detach().clone() for p in self.net.parameters()]
            for p, v in zip(self.net.parameters(), self.values):
                p.set_value(v)

        def __exit__(self, *exc):
            for p, v in zip(self.net.parameters(), self.kept):
                p.set_value(v)

    def applied(self, net):
        return Ema._Swap(net, self.mean)


def configure(net):
    clock, decayed, free = [], [], []
    for name, p in net.named_parameters():
        if name.startswith("time_code"):
            clock.append(p)
        elif len(p.shape) == 1 or name.startswith("source") or ".none_" in name:
            free.append(p)
        else:
            decayed.append(p)
    schedule = paddle.optimizer.lr.LambdaDecay(TRAIN["lr"], lr_factor)
    optim = paddle.optimizer.AdamW(
        learning_rate=schedule, beta1=TRAIN["beta1"], beta2=TRAIN["beta2"], epsilon=TRAIN["eps"],
        parameters=[{"params": decayed, "weight_decay": TRAIN["decay"]},
                    {"params": free, "weight_decay": 0.0},
                    {"params": clock, "weight_decay": 0.0, "learning_rate": TRAIN["time_lr"]}])
    optim.ema = Ema(net, TRAIN["ema"])
    return optim


def update(net, optim, batch):
    feeds = {k: v for k, v in batch.items() if k != "target"}
    loss = criterion(net(**feeds), batch["target"])
    loss.backward()
    norm = paddle.nn.utils.clip_grad_norm_(net.parameters(), TRAIN["max_norm"])
    optim.step()
    optim.clear_grad()
    optim.ema.update(net)
    return dict(loss=loss.detach(), grad_norm=norm, ema_gap=optim.ema.distance(net))


def validate(net, batches):
    net.eval()
    pairs = []
    with paddle.no_grad():
        for batch in batches:
            pairs.append((net(**{k: v for k, v in batch.items() if k != "target"}), batch["target"]))
    return scores(paddle.concat([p for p, _ in pairs]), paddle.concat([t for _, t in pairs]))


def train(net, train_batches, val_batches):
    optim = configure(net)
    for epoch in range(TRAIN["epochs"]):
        train_batches.batch_sampler.set_epoch(epoch)
        net.train()
        for batch in train_batches:
            info = update(net, optim, batch)
            optim._learning_rate.step()
        with optim.ema.applied(net):
            result = validate(net, val_batches)
        print(epoch, float(info["loss"]), {k: round(float(v), 4) for k, v in result.items()})
    return optim
