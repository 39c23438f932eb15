"""A registry of everything that the configuration names."""
_known = {}


def plugin(name):
    def add(factory):
        assert name not in _known, name
        _known[name] = factory
        return factory

    return add


def create(spec):
    options = {key: value for key, value in spec.items() if key != "name"}
    return _known[spec["name"]](**options)
