import json
import os

PACKAGE = os.path.dirname(os.path.abspath(__file__))
DATA = os.path.normpath(os.path.join(PACKAGE, "..", "..", "data"))


class Options(dict):
    """A dictionary that can be read with dots."""

    def __getattr__(self, name):
        try:
            return self[name]
        except KeyError:
            raise AttributeError(name) from None

    @property
    def n_patches(self):
        return (self.pictures.side // self.patch) ** 2

    @property
    def n_seen(self):
        return int(self.n_patches * (1 - self.hidden_share))


with open(os.path.join(PACKAGE, "options.json")) as f:
    OPTIONS = json.load(f, object_hook=Options)
