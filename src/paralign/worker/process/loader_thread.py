"""Loaders of Paddle whose reading thread has ended with an error.

Paddle reads ahead in a thread. What a data set raises there ends the thread and does not reach the program: it waits for the next
batch until it is killed. A worker that waits so ends instead, and its log says why.
"""

from __future__ import annotations

import os
import sys
import threading
import time
import weakref
from typing import Any, Optional

#: the function that reads ahead, and the one in which the program waits for it
READS, WAITS = "_thread_loop", "__next__"

#: the file that both are in
FILE = os.path.join("paddle", "io", "dataloader", "dataloader_iter.py")

#: seconds between two looks, and looks in a row at which the program waits for a thread that has ended
PAUSE, LOOKS = 0.5, 4


def watch() -> None:
    """End this process where its main thread waits for a loader whose thread has failed."""
    before = threading.excepthook

    def failed(given: Any) -> None:
        before(given)
        loader = _loader(given.exc_traceback)
        if loader is not None:
            said = f"the data loader cannot go on: {given.exc_type.__name__}: {given.exc_value}"
            threading.Thread(target=_end, args=(weakref.ref(loader), said), daemon=True).start()

    threading.excepthook = failed


def _loader(traceback: Any) -> Optional[Any]:
    """The iterator of Paddle in whose reading thread something was raised.

    None where it was none.
    """
    while traceback is not None:
        code = traceback.tb_frame.f_code
        if code.co_name == READS and code.co_filename.endswith(FILE):
            return traceback.tb_frame.f_locals.get("self")
        traceback = traceback.tb_next
    return None


def _waits(loader: Any) -> bool:
    """Whether the main thread waits for the next batch of this very loader."""
    frame = sys._current_frames().get(threading.main_thread().ident or 0)  # noqa: SLF001 - Python's own way to another thread's frames
    while frame is not None:
        if frame.f_code.co_name == WAITS and frame.f_code.co_filename.endswith(FILE):
            return frame.f_locals.get("self") is loader
        frame = frame.f_back
    return False


def _end(held: "weakref.ref[Any]", said: str) -> None:
    """End the process where its main thread waits for a loader.

    Nobody can wait for one that is gone.
    """
    seen = 0
    while seen < LOOKS:
        time.sleep(PAUSE)
        loader = held()
        if loader is None:
            return
        seen = seen + 1 if _waits(loader) else 0
        del loader
    sys.stderr.write(said + "\n")
    sys.stderr.flush()
    os._exit(1)
