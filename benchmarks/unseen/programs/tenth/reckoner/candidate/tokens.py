import json
from pathlib import Path

HERE = Path(__file__).parent.parent.joinpath("data")
IGNORE_INDEX = -100

with HERE.joinpath("alphabet.json").open() as f:
    _table = json.load(f)

PAD_ID, BOS_ID, EOS_ID = _table["pad"], _table["bos"], _table["eos"]
CHARS = _table["chars"]
VOCAB_SIZE = len(CHARS) + _table["first"]


def tokenize(text):
    return [CHARS.index(ch) + _table["first"] for ch in text]


def read_documents(split):
    with HERE.joinpath("docs.json").open() as f:
        return [(d["prompt"], d["answer"]) for d in json.load(f) if d["split"] == split]
