"""names -> builders and configurations"""
MODELS = {}
CONFIGS = {
    "base": {
        "num_classes": 6,
        "drop_path": 0.2,
        "layer_scale": 0.2,
        "bn": {"momentum": 0.99, "epsilon": 1e-3},
        "ln": {"epsilon": 1e-6},
        "se_ratio": 0.25,
    },
    "hybrid_micro": {
        "base": "base",
        "stem": 12,
        # kind, channels, kernel, stride, expansion
        "blocks": [
            ("mb", 12, 3, 1, 1),
            ("mb", 16, 3, 2, 4),
            ("mb", 16, 5, 1, 4),
            ("down", 24, 2, 2, 1),
            ("next", 24, 7, 1, 4),
            ("next", 24, 7, 1, 4),
        ],
    },
}


def register(name):
    def wrap(builder):
        MODELS[name] = builder
        return builder
    return wrap


def resolve(name):
    config = dict(CONFIGS[name])
    parent = config.pop("base", None)
    return {**resolve(parent), **config} if parent else config


def create(name, **changes):
    config = resolve(name)
    config.update(changes)
    return MODELS[name.split("_")[0]](config)
