"""The training engine, with checkpoints, callbacks and run folders."""

from viewsmith.training.callbacks import Diagnostics, EarlyWarnings, History, ProgressBar, Tracker
from viewsmith.training.engine import Callback, Trainer
from viewsmith.training.run import CheckpointFolder, RunFolder

__all__ = ["Callback", "CheckpointFolder", "Diagnostics", "EarlyWarnings", "History", "ProgressBar", "RunFolder"]
__all__ += ["Tracker", "Trainer"]
