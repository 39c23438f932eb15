"""What the settings may name, and the settings themselves."""
import pathlib
import tomllib

_ENTRIES = {}


def entry(kind, name):
    """Decorator: make a class or function known as `use = "name"` of its kind."""

    def add(target):
        _ENTRIES[(kind, name)] = target
        return target

    return add


def make(kind, table, *args, **extra):
    options = {key: value for key, value in table.items() if key != "use"}
    try:
        target = _ENTRIES[(kind, table["use"])]
    except KeyError:
        known = ", ".join(name for family, name in sorted(_ENTRIES) if family == kind)
        raise LookupError(f"no {kind} called {table['use']!r}; known: {known}") from None
    return target(*args, **options, **extra)


def settings():
    text = (pathlib.Path(__file__).with_name("settings.toml")).read_text(encoding="utf-8")
    return tomllib.loads(text)
