"""A very small reader of the two-level settings file."""
import os

HERE = os.path.dirname(os.path.abspath(__file__))


def _value(text):
    text = text.strip()
    if text.startswith("[") and text.endswith("]"):
        return [_value(part) for part in text[1:-1].split(",") if part.strip()]
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            pass
    return text


class Section(dict):
    __getattr__ = dict.__getitem__


def load(path=os.path.join(HERE, "settings.yaml")):
    tree, current = Section(), None
    with open(path) as handle:
        for line in handle:
            line = line.split("#")[0].rstrip()
            if not line:
                continue
            key, _, rest = line.strip().partition(":")
            if not line.startswith(" "):
                current = tree[key] = Section()
            else:
                current[key] = _value(rest)
    return tree


S = load()
