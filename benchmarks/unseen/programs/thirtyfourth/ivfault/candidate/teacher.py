"""Optimizer, schedule and one step of training."""
import math

import paddle


def rate(cfg):
    warm, total, low = cfg["warm_steps"], cfg["all_steps"], cfg["lowest"]

    def factor(step):
        if step < warm:
            return (step + 1.0) / warm
        done = min((step - warm) / (total - warm), 1.0)
        return low + 0.5 * (1.0 - low) * (1.0 + math.cos(done * math.pi))

    return paddle.optimizer.lr.LambdaDecay(learning_rate=cfg["peak"], lr_lambda=factor)


def optimizer(net, cfg):
    heads, rest, exempt = [], [], set()
    for name, p in net.named_parameters():
        (heads if name.split(".")[0] in ("fault", "level") else rest).append(p)
        if len(p.shape) < 2 or name.endswith("query"):
            exempt.add(p.name)
    groups = [{"params": rest}, {"params": heads, "learning_rate": cfg["head_factor"]}]
    return paddle.optimizer.AdamW(
        learning_rate=rate(cfg), parameters=groups, beta1=cfg["beta1"], beta2=cfg["beta2"], epsilon=1e-8,
        weight_decay=cfg["decay"], apply_decay_param_fun=lambda name: name not in exempt)


def step(net, optimizer, criterion, batch, max_norm):
    curve, env, target = batch
    parts = criterion(net(curve, env), target)
    parts["loss"].backward()
    norm = paddle.nn.utils.clip_grad_norm_(net.parameters(), max_norm)
    optimizer.step()
    optimizer.clear_grad()
    return {"loss": parts["loss"].detach(), "norm": norm}
