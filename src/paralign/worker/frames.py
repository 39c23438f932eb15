"""Where in the user's own code an exception passed."""

from __future__ import annotations

import os
import traceback
from typing import List

from paralign.worker.files import system_folders

#: frames that are shown where none is the user's
LAST = 3


def user_frames(error: BaseException) -> List[str]:
    """``file:line in function: code`` of every frame in the user's own files, outermost first; the last few where none is."""
    folders = system_folders()
    found = traceback.extract_tb(error.__traceback__)
    own = [
        f
        for f in found
        if not any(os.path.realpath(f.filename).startswith(folder + os.sep) for folder in folders) and not f.filename.startswith("<")
    ]
    return [f"{f.filename}:{f.lineno} in {f.name}: {f.line}" for f in own or found[-LAST:]]
