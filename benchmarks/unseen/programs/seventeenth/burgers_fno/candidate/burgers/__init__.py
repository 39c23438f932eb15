import json
import os

HERE = os.path.dirname(os.path.abspath(__file__))

with open(os.path.join(HERE, "..", "config.json")) as _file:
    CFG = json.load(_file)

DATA = os.path.normpath(os.path.join(HERE, "..", CFG["data"]["folder"]))
