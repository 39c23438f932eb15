"""Facts of a data set, leaf by leaf, and the names that it gives its classes.

Element types, shapes, samples a class, lengths of texts.
"""

from __future__ import annotations

import sys
from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Dict, List, Optional

if TYPE_CHECKING:
    from paralign.dtypes import Typed

#: shapes, and classes, of one leaf that are told; a data set may have as many shapes as samples
LISTED = 1000

#: characters of a class name that are kept
NAME = 100


class Facts:
    """What samples have in common, collected while they are read."""

    def __init__(self) -> None:
        self._dtypes: "Dict[str, Counter[str]]" = defaultdict(Counter)
        self._shapes: "Dict[str, Counter[str]]" = defaultdict(Counter)
        self._classes: "Dict[str, Counter[str]]" = defaultdict(Counter)

    def add(self, path: str, value: "Typed | str") -> None:
        """Take in one leaf of one sample."""
        if isinstance(value, str):
            self._dtypes[path]["text"] += 1
            self._shapes[path][str(len(value))] += 1
            return
        self._dtypes[path][value.dtype] += 1
        shapes = self._shapes[path]
        form = ", ".join(map(str, value.array.shape))
        if form in shapes or len(shapes) < LISTED:
            shapes[form] += 1
        if value.array.size == 1 and value.array.dtype.kind in "iub":
            classes = self._classes[path]
            number = str(int(value.array.reshape(-1)[0]))
            if number in classes or len(classes) <= LISTED:
                classes[number] += 1

    def told(self) -> Dict[str, Dict[str, Dict[str, int]]]:
        """Leaf -> ``dtypes``, ``shapes`` (of texts.

        Lengths) and ``classes``, each with its number of samples.

        ``classes`` is empty for a leaf that is no single whole number, or takes more than ``LISTED`` values: that is no class.
        """
        return {
            path: {
                "dtypes": dict(dtypes),
                "shapes": dict(self._shapes[path]),
                "classes": dict(self._classes[path]) if 0 < len(self._classes[path]) <= LISTED else {},
            }
            for path, dtypes in self._dtypes.items()
        }


def class_names(dataset: Any) -> Optional[List[str]]:
    """The names of a data set's classes, by number.

    They are its ``class_to_idx`` or ``classes``, also those of the set that it wraps.
    """
    for _ in range(4):  # wrappers in wrappers: a subset of a data set with transforms
        numbered = getattr(dataset, "class_to_idx", None)
        if isinstance(numbered, dict) and numbered:
            return [str(name)[:NAME] for name, _ in sorted(numbered.items(), key=lambda item: str(item[1]).zfill(12))][:LISTED]
        names = getattr(dataset, "classes", None)
        if isinstance(names, (list, tuple)) and names:
            return [str(name)[:NAME] for name in names][:LISTED]
        dataset = getattr(dataset, "dataset", None)
    return None


#: libraries that decode videos: module -> what it is called
DECODERS = {
    "decord": "decord",
    "av": "PyAV",
    "torchcodec": "torchcodec",
    "torchvision.io.video": "torchvision",
    "imageio_ffmpeg": "imageio-ffmpeg",
    "moviepy": "moviepy",
    "cv2": "OpenCV",
}


def decoders() -> List[str]:
    """The libraries for videos that this process has imported, with versions.

    OpenCV, which also reads pictures, counts where there is no other.
    """
    found: List[str] = []
    for module, name in DECODERS.items():
        loaded = sys.modules.get(module)
        if loaded is not None and not (module == "cv2" and found):
            version = getattr(sys.modules.get(module.partition(".")[0]), "__version__", "")
            found.append(f"{name} {version}".strip())
    return found
