import json
import os
from types import SimpleNamespace

HOME = os.path.dirname(os.path.abspath(__file__))

with open(os.path.join(HOME, "config.json")) as handle:
    RAW = json.load(handle)

C = SimpleNamespace(**RAW)
DATA = os.path.join(os.path.dirname(HOME), "data")
LIMITS = [C.linear_limit, C.linear_limit, C.shift_limit] * 2
