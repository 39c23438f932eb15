import pathlib
import tomllib

FOLDER = pathlib.Path(__file__).resolve().parent
DATA = FOLDER.parent / "data"
_tree = tomllib.loads((FOLDER / "sharpen.toml").read_text())


def get(dotted):
    node = _tree
    for key in dotted.split("."):
        node = node[key]
    return node
