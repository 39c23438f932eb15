class Registry(dict):
    def register(self, cls):
        self[cls.__name__] = cls
        return cls

    def build(self, cfg, *args, **extra):
        cfg = dict(cfg)
        return self[cfg.pop("type")](*args, **cfg, **extra)


BACKBONES, HEADS, LOSSES, OPTIMS, SCHEDULES = (Registry() for _ in range(5))
