import paddle

from . import settings

S = settings.solver


def depth(name):
    """0 is the top of the network."""
    blocks = len(settings.network["rates"])
    if name in ("head", "offset"):
        return 0
    if name.startswith("encoder."):
        return 1 + blocks - int(name.split(".")[1])
    return blocks + 2 if name.startswith("word_table") else 1


def make_schedule():
    warmup = S["warmup"]

    def factor(done):
        n = done + 1
        return n / warmup if n < warmup else (warmup / n) ** 0.5

    return paddle.optimizer.lr.LambdaDecay(S["base_lr"], factor)


def make_optimizer(network):
    groups = []
    for name, p in network.named_parameters():
        decayed = len(p.shape) > 1 and not name.startswith("word_table")
        groups.append({"params": [p], "learning_rate": S["decay_per_layer"] ** depth(name), "weight_decay": S["weight_decay"] if decayed else 0.0})
    return paddle.optimizer.AdamW(make_schedule(), beta1=S["beta1"], beta2=S["beta2"], epsilon=S["epsilon"], parameters=groups)
