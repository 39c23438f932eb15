class Registry:
    def __init__(self, kind):
        self.kind = kind
        self.entries = {}

    def register(self, name):
        def deco(obj):
            self.entries[name] = obj
            return obj

        return deco

    def build(self, name, **kwargs):
        if name not in self.entries:
            raise KeyError(f"unknown {self.kind}: {name}")
        return self.entries[name](**kwargs)


MODELS = Registry("model")
LOSSES = Registry("loss")
