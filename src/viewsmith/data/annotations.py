"""Events of recordings as the annotations of other programs: Audacity, EDF+ and WFDB."""

import importlib
import importlib.util
import re
from pathlib import Path
from typing import Any

import numpy as np

from viewsmith.core.files import atomic_folder

# Names of WFDB records may have these alone.
_OTHER = re.compile(r"[^A-Za-z0-9_-]+")


def write_annotations(
    folder: Path, recordings: np.ndarray, first: np.ndarray, last: np.ndarray, texts: list[str], rate: float
) -> None:
    """Write a new folder with the events of each recording, in the order of time.

    ``NAME.txt``: labels of Audacity (File, Import, Labels), begin and end in seconds and a text, separated by tabs.
    With edfio ``NAME.edf``: an EDF+ file of annotations alone, with onset, duration and text. With wfdb ``NAME.atr``:
    comments at the middle of each event.

    Parameters
    ----------
    folder : Path
    recordings : ndarray of str, shape (n,)
        Name of the recording of each event; what names of files cannot have becomes ``_``.
    first, last : ndarray of int, shape (n,)
        First point and the one after the last, in the recording.
    texts : list of str, length n
    rate : float
        Points per second.
    """
    with atomic_folder(folder) as whole:
        for name in dict.fromkeys(recordings.tolist()):
            rows = np.flatnonzero(recordings == name)
            rows = rows[np.argsort(first[rows], kind="stable")]
            begin, end, said = first[rows] / rate, last[rows] / rate, [texts[i] for i in rows]
            stem = _OTHER.sub("_", Path(str(name)).with_suffix("").as_posix())
            lines = (f"{a:.6f}\t{b:.6f}\t{text}\n" for a, b, text in zip(begin, end, said, strict=True))
            (whole / f"{stem}.txt").write_text("".join(lines), encoding="utf-8")
            if importlib.util.find_spec("edfio") is not None:
                edfio: Any = importlib.import_module("edfio")
                events = [
                    edfio.EdfAnnotation(a, b - a, text)
                    for a, b, text in zip(begin.tolist(), end.tolist(), said, strict=True)
                ]
                edfio.Edf([], annotations=events).write(whole / f"{stem}.edf")
            if importlib.util.find_spec("wfdb") is not None:
                wfdb: Any = importlib.import_module("wfdb")
                middle = (first[rows] + last[rows]) // 2
                order = np.argsort(middle, kind="stable")
                notes, comments = [said[i] for i in order], ['"'] * len(rows)
                wfdb.wrann(stem, "atr", middle[order], symbol=comments, aux_note=notes, fs=rate, write_dir=str(whole))
