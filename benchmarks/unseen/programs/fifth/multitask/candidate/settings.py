import ast
import os


def read(name="settings.yaml"):
    """the small part of YAML used here: sections of `key: value` lines"""
    tree, section = {}, None
    with open(os.path.join(os.path.dirname(os.path.abspath(__file__)), name)) as fh:
        for line in fh:
            line = line.split("#")[0].rstrip()
            if not line:
                continue
            key, _, value = line.strip().partition(":")
            if not line.startswith(" "):
                section = tree.setdefault(key, {})
                continue
            try:
                section[key] = ast.literal_eval(value.strip())
            except (ValueError, SyntaxError):
                section[key] = value.strip()
    return tree


PLUGINS = {}


def plugin(name):
    def keep(obj):
        PLUGINS[name] = obj
        return obj
    return keep


def make(options, *args):
    options = dict(options)
    return PLUGINS[options.pop("kind")](*args, **options)
