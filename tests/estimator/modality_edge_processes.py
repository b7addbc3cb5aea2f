"""Functions that tests of images and DNA run in other processes."""

import warnings
from pathlib import Path

import numpy as np

from viewsmith import PiNDA
from viewsmith.core.errors import InputError
from viewsmith.estimator import resolve


def fit_rows(rank, folder, options):
    """Fit in a group of two processes on the rows in the folder, and write the result or the error to a file."""
    resolve.TRIAL_STEPS = 4
    warnings.simplefilter("ignore")
    try:
        model = PiNDA(epochs=1, batch_size=8, n_components=8, random_state=0, **options)
        message = str(model.fit(np.load(f"{folder}/x.npy")).fitted_)
    except InputError as error:
        message = str(error)
    Path(folder, f"{rank}.txt").write_text(message)
