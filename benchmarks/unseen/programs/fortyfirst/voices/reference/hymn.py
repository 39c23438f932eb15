"""Hymns as sorted notes with links to the note before in the same voice."""
import json
from dataclasses import dataclass

from .pitch import midi


@dataclass
class Note:
    onset: float
    length: float
    pitch: int
    voice: str

    @property
    def end(self):
        return self.onset + self.length


def load(path):
    with open(path) as f:
        raw = json.load(f)
    notes = [Note(o, d, midi(p), v) for o, d, p, v in raw["notes"]]
    # from left to right, in a chord from above
    notes.sort(key=lambda n: (n.onset, -n.pitch))
    return notes, raw["meter"]


def previous(notes):
    """Index of the note before in the voice, or -1."""
    last, links = {}, []
    for k, n in enumerate(notes):
        links.append(last.get(n.voice, -1))
        last[n.voice] = k
    return links
