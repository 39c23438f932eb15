"""The training log of the migration guides, written inside the user's own loop.

See section 3.10.

Needs Python 3.8 or newer, and numpy for the memory of predictions; a framework is only asked to wait for its device, where one is imported.
"""

from paralign.trainlog.band import Band, Parted
from paralign.trainlog.checkpoints import Checkpoints
from paralign.trainlog.inference import InferenceLog
from paralign.trainlog.log import TrainLog
from paralign.trainlog.watchdog import Unstable, Watchdog

__all__ = ["Band", "Checkpoints", "InferenceLog", "Parted", "TrainLog", "Unstable", "Watchdog"]
