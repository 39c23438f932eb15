_known = {}


def register(cls):
    _known[cls.__name__] = cls
    return cls


def create(spec):
    spec = dict(spec)
    return _known[spec.pop("name")](**spec)
