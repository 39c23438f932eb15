"""A named shelf of classes: ``Shelf.make("name", ...)``."""


class Shelf(type):
    """Metaclass that files every class with a ``key`` under its family."""

    families = {}

    def __new__(mcs, name, bases, space):
        made = super().__new__(mcs, name, bases, space)
        if space.get("key"):
            mcs.families.setdefault(space["family"], {})[space["key"]] = made
        return made

    @classmethod
    def make(mcs, family, key, *args, **kwargs):
        return mcs.families[family][key](*args, **kwargs)


class Filed(metaclass=Shelf):
    key = None
    family = None
