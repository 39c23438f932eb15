"""All numbers of the experiment."""
from collections import namedtuple

Architecture = namedtuple("Architecture", "frames size channels tubelet width heads depth ratio classes drop_path scale_start")
Recipe = namedtuple("Recipe", "rate betas weight_decay layer_decay warmup total final clip smoothing mixup z_penalty batch seed")

ARCH = Architecture(
    frames=8, size=16, channels=3, tubelet=(2, 4, 4), width=32, heads=4, depth=3, ratio=2, classes=5, drop_path=0.2, scale_start=0.1,
)
RECIPE = Recipe(
    rate=2e-3, betas=(0.9, 0.95), weight_decay=0.05, layer_decay=0.65, warmup=5, total=36, final=0.01, clip=0.5,
    smoothing=0.1, mixup=0.4, z_penalty=1e-3, batch=4, seed=17,
)
CLASSES = ("down", "left", "right", "still", "up")
MEAN = (0.146, 0.138, 0.151)
STD = (0.118, 0.109, 0.124)
