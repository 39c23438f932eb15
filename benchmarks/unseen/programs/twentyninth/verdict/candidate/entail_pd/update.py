"""Paddle's Adamax, warm-up and polynomial decay."""
from paddle import nn, optimizer
from paddle.regularizer import L2Decay


def make_plan(s):
    fall = optimizer.lr.PolynomialDecay(
        learning_rate=s["peak"], decay_steps=s["fall"], end_lr=s["last"], power=s["power"])
    return optimizer.lr.LinearWarmup(
        learning_rate=fall, warmup_steps=s["ramp"], start_lr=s["first"], end_lr=s["peak"])


def make_optimizer(model, s):
    beta1, beta2 = s["betas"]
    return optimizer.Adamax(
        learning_rate=make_plan(s), beta1=beta1, beta2=beta2, epsilon=s["epsilon"],
        parameters=model.parameters(), weight_decay=L2Decay(s["l2"]),
        grad_clip=nn.ClipGradByNorm(s["max_norm"]))
