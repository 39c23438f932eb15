import os
import tomllib

with open(os.path.join(os.path.dirname(__file__), "config.toml"), "rb") as f:
    CONFIG = tomllib.load(f)
