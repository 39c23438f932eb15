"""Settings for the x2 network, one class per concern."""


class Net:
    scale = 2
    width = 12
    depth = 3
    expand = 3
    bottleneck = 9          # 0.75 * width
    branch_gain = 0.8
    rgb_mean = [0.45, 0.47, 0.50]


class Data:
    hr_patch = 24
    stride = 16
    batch = 4
    held_out = 1            # how many photos, from the end, form the validation set


class Solver:
    base_lr = 1.5e-3
    upscale_lr_mult = 0.5
    warmup_steps = 8
    max_steps = 120
    betas = (0.9, 0.99)
    eps = 1e-7
