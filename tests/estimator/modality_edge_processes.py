"""Functions that tests of images and DNA run in other processes."""

import datetime
import warnings
from pathlib import Path

import numpy as np
import torch

from viewsmith import PiNDA
from viewsmith.core.errors import InputError
from viewsmith.estimator import resolve


def fit_rows(rank, meet, folder, options):
    """Fit in a group of two processes on the rows in the folder, and write the result or the error to a file."""
    torch.set_num_threads(1)
    resolve.TRIAL_STEPS = 4
    warnings.simplefilter("ignore")
    torch.distributed.init_process_group(
        "gloo", f"file://{meet}", datetime.timedelta(seconds=40), world_size=2, rank=rank
    )
    try:
        model = PiNDA(epochs=1, batch_size=8, n_components=8, random_state=0, **options)
        message = str(model.fit(np.load(f"{folder}/x.npy")).fitted_)
    except InputError as error:
        message = str(error)
    finally:
        torch.distributed.destroy_process_group()
    Path(folder, f"{rank}.txt").write_text(message)
