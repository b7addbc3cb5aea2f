"""Trainings that end early, like those that get a signal."""

from viewsmith.training import Callback


class Stop(Callback):
    """Ends the training after a number of steps."""

    def __init__(self, after):
        self.after = after

    def step(self, trainer):
        trainer._stop = trainer.steps == self.after
