"""Captures on disk: what one run of one side recorded; and the files of other tools.

A capture is a folder: ``manifest.json``, ``records.jsonl`` (one line a record) and ``shards/`` (tensors in the safetensors
format). All paths inside are relative, so it can be moved. Nothing that is read here can execute anything.
"""

from __future__ import annotations

from paralign.capture.foreign import load_foreign, save_foreign
from paralign.capture.layout import clear, discard
from paralign.capture.reader import Capture
from paralign.capture.writer import CaptureWriter

__all__ = ["Capture", "CaptureWriter", "clear", "discard", "load_foreign", "save_foreign"]
