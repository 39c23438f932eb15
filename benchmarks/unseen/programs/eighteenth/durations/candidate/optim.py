"""Rates: warm-up, then half a cosine; each part of the network with its own factor."""
import math

from paddle.optimizer import AdamW
from paddle.optimizer.lr import LambdaDecay

PEAK, RAMP, LENGTH, LOWEST = 6e-3, 4, 40, 0.05
# part: (factor of the rate, weight decay)
POLICY = {"inputs": (2.0, 0.0), "outputs": (0.3, 0.05), "matrices": (1.0, 0.05), "vectors": (1.0, 0.0)}


def shape_of_rate(n):
    if n < RAMP:
        return (n + 1) / RAMP
    phase = math.pi * min(n - RAMP, LENGTH - RAMP) / (LENGTH - RAMP)
    return LOWEST + (1.0 - LOWEST) * (1.0 + math.cos(phase)) / 2.0


def part_of(name, parameter):
    root = name.split(".")[0]
    if root in ("cells", "lookup", "summary"):
        return "inputs"
    if root.endswith("_head"):
        return "outputs"
    return "matrices" if parameter.ndim == 2 else "vectors"


def create(network):
    members = {part: [] for part in POLICY}
    for name, parameter in network.named_parameters():
        members[part_of(name, parameter)].append(parameter)
    groups = [{"params": members[part], "learning_rate": factor, "weight_decay": decay}
              for part, (factor, decay) in POLICY.items()]
    return AdamW(learning_rate=LambdaDecay(PEAK, shape_of_rate), parameters=groups, beta1=0.9, beta2=0.95, epsilon=1e-7,
                 weight_decay=0.01)
