"""Mistakes that people make when they port, one of which ``PARALIGN_BREAK=<name>`` plants in this port."""

import os

BREAKS = {
    "days": "a table of 31 days for days that are counted from 1",
    "circular": "zeros around the series in the value embedding, where the reference joins its ends",
    "scale": "scores divided by the root of the model's width instead of a head's",
    "measure": "sparsity with the mean over the sampled keys, where the reference divides by the number of all keys",
    "cumsum": "the mean of all values for lazy queries of the decoder, which may not see later steps",
    "gelu": "GELU by its tanh approximation",
    "norm": "no normalisation behind the encoder",
    "leak": "mean and deviation of the whole series instead of the rows that are trained on",
    "ddof": "the deviation as pandas has it, divided by N - 1",
    "border": "a validation split that does not see the rows before it",
    "months": "months counted from 0",
    "metric": "the root of the mean squared error",
    "loss": "smooth L1 where the reference has the squared error",
    "adamw": "AdamW, which decays weights by 0.01 unless told otherwise, for Adam",
    "gamma": "StepDecay's own gamma of 0.1 instead of 0.5",
    "bn_momentum": "BatchNorm's momentum 0.1 copied as a number: Paddle weighs the old value, PyTorch the new one",
    "restore": "a forecast that is not scaled back into its own units",
    "init": "Paddle's own initial weights",
    "per_iteration": "the schedule stepped after each batch instead of each epoch",
    "shuffle": "a training loader that does not shuffle",
    "eval_left": "eval mode kept after the first evaluation: no dropout from the second epoch on",
}


def choose(name):
    if name and name not in BREAKS:
        raise ValueError(f"PARALIGN_BREAK={name!r} is no planted mistake; choose one of: {', '.join(BREAKS)}")
    return name


CHOSEN = choose(os.environ.get("PARALIGN_BREAK", ""))


def broken(name):
    """Whether the mistake ``name`` is planted."""
    return choose(name) == CHOSEN
