"""Which group of parameters was decayed in one training alone: a small transformer, trained three times from other seeds.

    python benchmarks/speed/decay.py [--steps 2500]

The first two trainings leave vectors and position embeddings out of weight decay, the third decays everything. Printed is what
`paralign weights diff` says of the first against each of the others: nothing, and the groups that the third shrank.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from pathlib import Path

DECAY = 0.3


def build(torch):
    nn = torch.nn

    class Net(nn.Module):
        def __init__(self, width=48, length=12, depth=4):
            super().__init__()
            self.embed, self.norm, self.head = nn.Linear(16, width), nn.LayerNorm(width), nn.Linear(width, 10)
            self.pos = nn.Parameter(torch.randn(1, length, width) * 0.02)
            self.cls = nn.Parameter(torch.zeros(1, 1, width))
            layers = (nn.TransformerEncoderLayer(width, 4, 2 * width, 0.0, batch_first=True, norm_first=True) for _ in range(depth))
            self.blocks = nn.ModuleList(layers)

        def forward(self, x):
            x = torch.cat([self.cls.expand(len(x), -1, -1), self.embed(x) + self.pos], 1)
            for block in self.blocks:
                x = block(x)
            return self.head(self.norm(x[:, 0]))

    return Net()


def train(torch, seed, steps, everything):
    """The state after training on labels of a fixed linear teacher."""
    teacher = torch.Generator().manual_seed(7)
    weights, places = torch.randn(16, 10, generator=teacher), torch.randn(12, 1, generator=teacher)
    torch.manual_seed(seed)
    net, random = build(torch), torch.Generator().manual_seed(seed + 100)
    groups = {True: [], False: []}
    for name, parameter in net.named_parameters():
        groups[everything or (parameter.ndim > 1 and name not in ("pos", "cls"))].append(parameter)
    optimizer = torch.optim.AdamW(
        [{"params": found, "weight_decay": DECAY if decayed else 0.0} for decayed, found in groups.items() if found], lr=1e-3
    )
    schedule = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, steps)
    for _ in range(steps):
        x = torch.randn(64, 12, 16, generator=random)
        loss = torch.nn.functional.cross_entropy(net(x), ((x * places) @ weights).sum(1).argmax(1))
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        schedule.step()
    return net.state_dict()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--steps", type=int, default=2500)
    options = parser.parse_args()
    import torch

    from paralign import diff_weights

    torch.set_num_threads(1)
    with tempfile.TemporaryDirectory() as name:
        paths = [Path(name) / f"{seed}.pth" for seed in range(3)]
        for seed, path in enumerate(paths):
            torch.save(train(torch, seed, options.steps, everything=seed == 2), path)
        found = [{g.name: round(g.factor, 3) for g in diff_weights(paths[0], other).groups if g.smaller} for other in paths[1:]]
    print(f"another seed: {found[0] or 'no group stands out'}")
    print(f"another seed, everything decayed: {found[1] or 'no group stands out'}")
    if found[0] or not found[1]:
        sys.exit("a group stands out that should not, or none where one should")


if __name__ == "__main__":
    main()
