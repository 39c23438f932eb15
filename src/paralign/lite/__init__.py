"""A small set drawn from a data set: deterministic, with annotations and a manifest."""

from paralign.lite.example import make
from paralign.lite.hashes import Checked, check_files, read_manifest
from paralign.lite.subset import Drawn, draw

__all__ = ["Checked", "Drawn", "check_files", "draw", "make", "read_manifest"]
