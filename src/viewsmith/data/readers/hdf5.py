"""A trial of HDF5 files in another process: some damage crashes HDF5, or keeps it in an endless loop."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from viewsmith.core.errors import InputError

_SECONDS = 60.0
# Damage that Python notices ends without an error here: the reader will meet it again and say what it is.
_READ_ATTRIBUTES = """
import sys
try:
    import h5py
    def read(name, thing):
        for key in thing.attrs:
            try:
                thing.attrs[key]
            except Exception:
                pass
    with h5py.File(sys.argv[1]) as file:
        read("/", file)
        file.visititems(read)
except Exception:
    pass
"""


def try_attributes(path: Path, seconds: float = _SECONDS) -> None:
    """Read all attributes of an HDF5 file in another process, which may crash in our place.

    Attributes of variable length that are damaged crash HDF5 2.0.0 or do not let it return. In 100,000 damaged files
    (`benchmarks/survival/fuzz.py`) nothing else did.

    Raises
    ------
    InputError
        The process crashed, or did not end within `seconds`.
    """
    command = [sys.executable, "-P", "-c", _READ_ATTRIBUTES, str(path)]
    try:
        code = subprocess.run(command, capture_output=True, timeout=seconds, check=False).returncode
    except subprocess.TimeoutExpired:
        found = f"HDF5 does not finish reading its attributes ({seconds:g} s)"
    except OSError:  # no process can be started here
        return
    else:
        if code == 0:
            return
        found = "HDF5 crashes on its attributes"
    raise InputError(f"cannot read {path} as an .h5ad file: it is damaged ({found}); copy it again from its source")
