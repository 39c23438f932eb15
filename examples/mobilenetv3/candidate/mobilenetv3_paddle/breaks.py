"""Mistakes that people make when they port, one of which ``PARALIGN_BREAK=<name>`` plants in this port."""

import os

BREAKS = {
    "avgpool": "AvgPool2D leaves padded zeros out of the mean (exclusive=True is Paddle's default), PyTorch counts them",
    "epsilon": "BatchNorm2D's default epsilon 1e-5 where the reference sets 1e-3",
    "hardsigmoid": "the slope 0.2 of Paddle's old fluid.layers.hard_sigmoid where PyTorch's Hardsigmoid has 1/6",
    "hardswish": "swish where the reference has hardswish",
    "bias": "convolutions of squeeze-excite without a bias",
    "resize": "bicubic interpolation where the reference resizes bilinearly",
    "bgr": "images read in BGR order, as OpenCV does, for a model trained on RGB",
    "normalize": "the mean in BGR order for RGB images",
    "drop_last": "a DataLoader that drops the last, partial batch",
    "metric": "top-k hits averaged over k places a sample instead of summed",
    "loss": "softmax before cross_entropy, which applies it once more (use_softmax=True is its default)",
    "momentum": "optimizer.SGD, which has no momentum, for torch.optim.SGD(momentum=0.9)",
    "weight_decay": "no weight decay",
    "schedule": "a schedule beside the optimizer instead of in it: the learning rate never falls",
    "bn_momentum": "BatchNorm's momentum copied as a number: Paddle weighs the old value, PyTorch the new one",
    "resume": "a resumed training that loads the weights alone: momenta and schedule begin anew",
    "predict": "images squeezed to 224x224 at prediction, without keeping their proportions and cropping",
    "export": "exported with a softmax at the end, as deployments like it, where the model returns logits",
}


def choose(name):
    if name and name not in BREAKS:
        raise ValueError(f"PARALIGN_BREAK={name!r} is no planted mistake; choose one of: {', '.join(BREAKS)}")
    return name


CHOSEN = choose(os.environ.get("PARALIGN_BREAK", ""))


def broken(name):
    """Whether the mistake ``name`` is planted."""
    return choose(name) == CHOSEN
