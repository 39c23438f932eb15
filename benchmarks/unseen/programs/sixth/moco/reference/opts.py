"""Options as the training script's argparse would have given them."""
import argparse


def get_opts(argv=()):
    p = argparse.ArgumentParser("moco-arc")
    p.add_argument("--dim", type=int, default=16)
    p.add_argument("--queue", type=int, default=40)
    p.add_argument("--m", type=float, default=0.95)
    p.add_argument("--t", type=float, default=0.2)
    p.add_argument("--classes", type=int, default=6)
    p.add_argument("--scale", type=float, default=12.0)
    p.add_argument("--margin", type=float, default=0.35)
    p.add_argument("--smoothing", type=float, default=0.1)
    p.add_argument("--arc-weight", type=float, default=0.5)
    p.add_argument("--lr", type=float, default=0.05)
    p.add_argument("--wd", type=float, default=1e-3)
    p.add_argument("--clip", type=float, default=1.0)
    p.add_argument("--t-max", type=int, default=20)
    p.add_argument("--batch-size", type=int, default=8)
    return p.parse_args(list(argv))
