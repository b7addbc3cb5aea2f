"""Print the memory that a training of CRL-TAC adds to the process, in MB; run in a new process."""

import resource
import sys
import warnings

import numpy as np
import torch

from viewsmith import CRLTAC

if __name__ == "__main__":
    warnings.simplefilter("ignore")
    torch.set_num_threads(1)
    n, epochs = map(int, sys.argv[1:])
    x = np.zeros((n, 84, 84), np.uint8)
    x[:, 30:58, 20:48] = np.random.default_rng(0).integers(0, 256, (n, 28, 28))
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    CRLTAC(epochs=epochs, random_state=0).fit(x)
    print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) / 1000)
