"""Fit a linear-contrast model to many parquet files by an engine that distributes them (Ray Data, Spark, Dask)."""

import hashlib
import json
import os
import time
from collections.abc import Sequence
from pathlib import Path

import pandas as pd
import torch

from viewsmith.core.errors import InputError
from viewsmith.core.files import atomic_path
from viewsmith.core.tensors import DamageError, read_tensors
from viewsmith.methods.linear_contrast.estimator import LinearContrast
from viewsmith.methods.linear_contrast.training import Sums
from viewsmith.methods.loading import load
from viewsmith.workflows.over_files import check_names, model_of, read_samples

#: In the metadata of a part: the names of the files whose sums it has, and the digest of the features that they are of.
FILES, FEATURES = "viewsmith.files", "viewsmith.features"


class FitOverFiles:
    """A function of a DataFrame with a column ``file``, for the map of an engine: it sums the moments of their views.

    The features come from a run of linear-contrast that was fitted to some of the rows (`LinearContrast.save`, or
    ``viewsmith fit --method linear-contrast``); the sums of all files replace those of that fit (`finish`). Files of
    one call make one part in `out`, which appears as a whole or not at all. Work that was stopped is resumed with the
    files that are in no part. The result does not depend on the engine or on how files are spread over its workers, up
    to the rounding of sums.

    Parameters
    ----------
    run : path
        A run of linear-contrast.
    out : path
        Folder of the parts; each takes 80 p^2 bytes for p reduced features, at most 190 MB.
    column : str, optional
        The column of the samples: strings of letters, or nested lists of numbers (images, recordings). Default: the
        columns that the run was fitted on.
    drop : sequence of str
        Columns that are no features, such as a key; only without `column`.
    threads : int
        Threads of each process.
    """

    def __init__(
        self,
        run: str | os.PathLike[str],
        out: str | os.PathLike[str],
        *,
        column: str | None = None,
        drop: Sequence[str] = (),
        threads: int = 1,
    ) -> None:
        self.run, self.out = os.fspath(run), Path(out)
        self.column, self.drop, self.threads = column, list(drop), threads

    def parts(self) -> dict[Path, list[str]]:
        """The parts, and the names of their files."""
        return {path: _files_of(path) for path in sorted(self.out.glob("sums-*.safetensors"))}

    def pending(self, files: Sequence[str | os.PathLike[str]]) -> pd.DataFrame:
        """The files that are in no part, in a column ``file``; raises InputError for two files of the same name."""
        check_names(files)
        self.out.mkdir(parents=True, exist_ok=True)
        done = {name for names in self.parts().values() for name in names}
        return pd.DataFrame({"file": [str(file) for file in files if Path(file).name not in done]})

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Sum the moments of files, and write them as one part; returns its number of rows and its seconds."""
        from safetensors.torch import save_file

        torch.set_num_threads(self.threads)
        files = [str(file) for file in frame["file"]]
        if not files:
            return pd.DataFrame({"file": [], "result": [], "rows": [], "seconds": []})
        started, rows, model = time.perf_counter(), 0, self._model()
        total: Sums | None = None
        for file in files:
            table, samples = read_samples(file, self.column, self.drop)
            # The draws of a file depend on its name alone, whoever works on it.
            sums = model.sums(samples, Path(file).name)
            total, rows = sums if total is None else total + sums, rows + len(table)
        assert total is not None
        names = sorted(Path(file).name for file in files)
        digest = hashlib.blake2b("\n".join(names).encode(), digest_size=8).hexdigest()
        target = self.out / f"sums-{digest}.safetensors"
        with atomic_path(target) as temporary:
            tensors = {name: value.cpu().contiguous() for name, value in total.tensors().items()}
            save_file(tensors, str(temporary), metadata={FILES: json.dumps(names), FEATURES: _digest(model)})
        seconds = time.perf_counter() - started
        return pd.DataFrame({"file": [" ".join(files)], "result": [str(target)], "rows": [rows], "seconds": [seconds]})

    def finish(self) -> LinearContrast:
        """The model of the sums of all parts, which `LinearContrast.save` writes to a folder of its own.

        Raises
        ------
        InputError
            There is no part, one is damaged, or a file is in two parts.
        """
        parts = self.parts()
        names = [name for each in parts.values() for name in each]
        if not names:
            raise InputError(f"{self.out} has no sums of moments: call the engine's map with the pending files first")
        if twice := next((name for name in names if names.count(name) > 1), None):
            both = " and ".join(path.name for path, each in parts.items() if twice in each)
            raise InputError(f"{twice} is in the parts {both} of {self.out}: delete one, and do its other files again")
        # A model of its own: that of the process stays the one of the run.
        model, total = self._model(fresh=True), None
        for path in parts:
            if _metadata(path).get(FEATURES) != _digest(model):
                raise InputError(f"{path} has sums of another run than {self.run}: take another folder for each run")
            try:
                sums = Sums.of(read_tensors(path))
            except (DamageError, KeyError) as error:
                raise InputError(f"{path} is damaged ({error}): delete it, and do its files again") from error
            total = sums if total is None else total + sums
        assert total is not None
        model.solve(total)
        model.summary_ |= {"files": len(names)}
        return model

    def _model(self, *, fresh: bool = False) -> LinearContrast:
        model = load(self.run) if fresh else model_of(self.run)
        if not isinstance(model, LinearContrast):
            raise InputError(f"{self.run} is a run of {model.name}: only linear-contrast is fitted over files")
        return model


def _files_of(path: Path) -> list[str]:
    try:
        return [str(name) for name in json.loads(_metadata(path)[FILES])]
    except (ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}): delete it, and do its files again") from error


def _metadata(path: Path) -> dict[str, str]:
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            return dict(file.metadata() or {})
    except (SafetensorError, OSError, ValueError) as error:
        raise InputError(f"{path} is damaged ({error}): delete it, and do its files again") from error


def _digest(model: LinearContrast) -> str:
    """Of what sums depend on besides the samples: statistics of features, and the directions of the sums."""
    encoder = model.method_.framework.encoder  # type: ignore[union-attr]
    digest = hashlib.blake2b(digest_size=8)
    for each in (encoder.center, encoder.scale, encoder.basis):  # type: ignore[union-attr]
        digest.update(each.cpu().contiguous().numpy().tobytes())  # type: ignore[operator]
    return digest.hexdigest()
