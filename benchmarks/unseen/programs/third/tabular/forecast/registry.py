class Registry(dict):
    def add(self, key):
        def keep(thing):
            self[key] = thing
            return thing
        return keep

    def make(self, key, *args, **kwargs):
        return self[key](*args, **kwargs)


LAYERS, HEADS, LOSSES = Registry(), Registry(), Registry()
