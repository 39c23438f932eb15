"""A tiny registry in the manner of mmcv."""


class Registry:
    def __init__(self, name):
        self.name, self._classes = name, {}

    def register(self, cls):
        self._classes[cls.__name__] = cls
        return cls

    def build(self, cfg, **defaults):
        args = {**defaults, **cfg}
        kind = args.pop("type")
        if kind not in self._classes:
            raise KeyError(f"{kind} is not in the {self.name} registry")
        return self._classes[kind](**args)


BACKBONES, NECKS, HEADS, DETECTORS = (Registry(n) for n in ("backbone", "neck", "head", "detector"))
TASK_UTILS, LOSSES, PIPELINES = (Registry(n) for n in ("task util", "loss", "pipeline"))
