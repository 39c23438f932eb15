import paddle


def make_schedule(s):
    after = paddle.optimizer.lr.MultiStepDecay(
        s.lr, milestones=[m - s.warmup for m in s.milestones], gamma=s.gamma
    )
    return paddle.optimizer.lr.LinearWarmup(
        after, warmup_steps=s.warmup, start_lr=s.lr * s.warmup_factor, end_lr=s.lr
    )


def make_optimizer(s, model):
    slow = {id(p) for p in model.backbone_parameters()}
    buckets = {}
    for p in model.parameters():
        key = (id(p) in slow, len(p.shape) > 1)
        buckets.setdefault(key, []).append(p)
    groups = []
    for (is_slow, decayed), params in buckets.items():
        groups.append(
            {
                "params": params,
                "learning_rate": s.backbone if is_slow else 1.0,  # a factor on the rate
                "weight_decay": s.weight_decay if decayed else 0.0,
            }
        )
    return paddle.optimizer.Momentum(
        learning_rate=make_schedule(s), momentum=s.momentum, use_nesterov=True, parameters=groups
    )
