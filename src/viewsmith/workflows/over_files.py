"""Work on many parquet files by an engine that distributes it (Ray Data, Spark, Dask): a result for each file, once;
or a linear-contrast model that is fitted to all of them."""

import dataclasses
import functools
import hashlib
import json
import os
import time
from collections.abc import Callable, Sequence
from dataclasses import KW_ONLY, dataclass
from pathlib import Path
from typing import Any, Literal, get_args

import numpy as np
import pandas as pd
import torch

from viewsmith.core.errors import InputError, MissingExtra, check_choice, duplicates, error_text, join_names, one_line
from viewsmith.core.files import atomic_path
from viewsmith.core.tensors import DamageError, read_tensors
from viewsmith.data.reading import reading
from viewsmith.evaluation.symmetries import symmetries
from viewsmith.methods.linear_contrast.estimator import LinearContrast
from viewsmith.methods.linear_contrast.training import Sums
from viewsmith.methods.loading import load
from viewsmith.modalities import detect

Task = Literal["embed", "locate", "symmetries"]


@dataclass(eq=False)
class OverFiles:
    """A function of a DataFrame with a column ``file``, for the map of an engine: it writes a result for each file.

    The result of ``DIR/NAME.parquet`` is ``out/NAME.parquet``. It appears as a whole, or not at all, and a file that
    has one is left out: work that was stopped is resumed with the files that are left, and a file that two workers have
    done has one result.
    """

    #: embed: columns ``h0``, ``h1``, ... for each row. locate: a row for each location, ``sample`` is the number of its
    #: row. symmetries: a row for each transformation, with its tests on the rows of the file
    #: (`viewsmith.evaluation.symmetries.symmetries`).
    task: Task
    out: Path  #: folder of the results, or its name
    _: KW_ONLY
    run: Path | None = None  #: the run whose model embeds or locates; each process loads it once
    #: The column of the samples: strings of DNA, or nested lists of numbers (images, recordings). Default: the columns
    #: that the run was trained on; for symmetries all columns of numbers.
    column: str | None = None
    keep: Sequence[str] = ()  #: columns that are copied to the results of embed and locate, such as a key
    threads: int = 1  #: of each process

    def __post_init__(self) -> None:
        check_choice("task", self.task, Task)
        if (self.run is None) != (self.task == "symmetries"):
            need = f"{join_names(list(get_args(Task)[:2]))} need a run, symmetries take none"
            raise InputError(f"run is {self.run!r}: {need}")
        self.out, self.keep = Path(self.out), list(self.keep)

    def pending(self, files: Sequence[str | os.PathLike[str]]) -> pd.DataFrame:
        """The files without a result, in a column ``file``; raises InputError for two files of the same name."""
        check_names(files)
        self.out.mkdir(parents=True, exist_ok=True)
        return pd.DataFrame({"file": [str(file) for file in files if not self._target(file).exists()]})

    def __call__(self, frame: pd.DataFrame) -> pd.DataFrame:
        """Work on the files of a DataFrame; returns for each file its result and its numbers of rows and seconds."""
        torch.set_num_threads(self.threads)
        done = []
        for file in frame["file"]:
            started, target, rows = time.perf_counter(), self._target(file), -1
            if not target.exists():
                rows = self._work(str(file), target)
            done.append((str(file), str(target), rows, time.perf_counter() - started))
        return pd.DataFrame(done, columns=["file", "result", "rows", "seconds"])

    def _target(self, file: str | os.PathLike[str]) -> Path:
        target = self.out / Path(file).name
        if os.path.realpath(target) == os.path.realpath(file):
            raise InputError(f"out is {str(self.out)!r}, the folder of {file} itself: give another folder for results")
        return target

    def _work(self, file: str, target: Path) -> int:
        table, samples = read_samples(file, self.column, self.keep)
        kept = table[self.keep].reset_index(drop=True)
        made = _TASKS[self.task](self, samples)
        if self.task == "embed":
            made = pd.concat([kept, made], axis=1)
        elif self.task == "locate":
            made = pd.concat([kept.iloc[made["sample"]].reset_index(drop=True), made], axis=1)
        try:
            with atomic_path(target) as temporary:
                made.to_parquet(temporary, index=False)
        except (TypeError, ValueError) as error:  # of Arrow, such as two columns of one name
            raise InputError(f"{target} cannot be written: {one_line(error_text(error), 200)}") from error
        return len(table)


def check_names(files: Sequence[str | os.PathLike[str]]) -> None:
    """Raise InputError for two files of the same name."""
    if twice := duplicates([Path(file).name for file in files]):
        raise InputError(f"two files are called {twice[0]}: their results would be one file; rename one")


def read_samples(file: str, column: str | None, keep: Sequence[str] = ()) -> tuple[pd.DataFrame, Any]:
    """The table of a parquet file, and its samples: those in a column, or rows without the columns to keep."""
    try:
        with reading(file, "a parquet file"):
            table = pd.read_parquet(file)
    except InputError as error:
        if isinstance(error.__cause__, ImportError):
            raise MissingExtra("pyarrow", "parquet", "reading parquet files") from error
        raise
    if missing := [name for name in [*keep, column] if name is not None and name not in table]:
        raise InputError(f"{file} has no column {missing[0]!r}: its columns are {', '.join(map(str, table))}")
    return table, table.drop(columns=list(keep)) if column is None else _samples(table[column])


def _embed(work: OverFiles, samples: Any) -> pd.DataFrame:
    h = model_of(str(work.run)).transform(samples)
    return pd.DataFrame(h, columns=[f"h{i}" for i in range(h.shape[1])])


def _locate(work: OverFiles, samples: Any) -> pd.DataFrame:
    found = model_of(str(work.run)).locate(samples)
    return pd.DataFrame({name: found[name] for name in found.dtype.names})


def _symmetries(work: OverFiles, samples: Any) -> pd.DataFrame:
    x = samples.select_dtypes("number").to_numpy(np.float32) if isinstance(samples, pd.DataFrame) else samples
    modality = detect(x, "auto")
    rows = modality.read(x, row_shape=None, impute="none", estimator=None)
    tested = [dataclasses.asdict(each) | {"on_the_data": each.on_the_data} for each in symmetries(rows, modality.name)]
    return pd.DataFrame(tested)


_TASKS: dict[str, Callable[[OverFiles, Any], Any]] = {"embed": _embed, "locate": _locate, "symmetries": _symmetries}


@functools.lru_cache(maxsize=2)
def model_of(run: Path) -> Any:
    """The model of a run, which each process loads once."""
    return load(run)


def _samples(values: Any) -> Any:
    """The values of a column as samples: strings, or an array of what nested lists hold."""
    if values.map(lambda each: isinstance(each, str)).all():
        return values.tolist()
    return np.stack([_stacked(each) for each in values])


def _stacked(value: Any) -> np.ndarray:
    """Nested arrays of objects, as parquet returns lists of lists, as one array."""
    made = np.asarray(value)
    return np.stack([_stacked(each) for each in made]) if made.dtype == object else made


#: In the metadata of a part: the names of the files whose sums it has, and the digest of the features that they are of.
FILES, FEATURES = "viewsmith.files", "viewsmith.features"


@dataclass(eq=False)
class FitOverFiles:
    """A function of a DataFrame with a column ``file``, for the map of an engine: it sums the moments of their views.

    The features come from a run of linear-contrast that was fitted to some of the rows (`LinearContrast.save`, or
    ``viewsmith fit --method linear-contrast``); the sums of all files replace those of that fit (`finish`). Files of
    one call make one part in `out`, which appears as a whole or not at all. Work that was stopped is resumed with the
    files that are in no part. The result does not depend on the engine or on how files are spread over its workers, up
    to the rounding of sums.
    """

    run: Path  #: of linear-contrast
    out: Path  #: folder of the parts; each takes 80 p^2 bytes for p reduced features, at most 190 MB
    _: KW_ONLY
    #: The column of the samples: strings of letters, or nested lists of numbers (images, recordings). Default: the
    #: columns that the run was fitted on.
    column: str | None = None
    drop: Sequence[str] = ()  #: columns that are no features, such as a key; only without `column`
    threads: int = 1  #: of each process

    def __post_init__(self) -> None:
        self.out, self.drop = Path(self.out), list(self.drop)

    def parts(self) -> dict[Path, list[str]]:
        """The parts, and the names of their files."""
        return {path: _metadata(path)[0] for path in sorted(self.out.glob("sums-*.safetensors"))}

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
            if _metadata(path)[1] != _digest(model):
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


def _metadata(path: Path) -> tuple[list[str], str | None]:
    """Names of the files of a part, and the digest of the features that its sums are of."""
    from safetensors import SafetensorError, safe_open

    try:
        with safe_open(str(path), framework="pt") as file:
            found = file.metadata() or {}
        return [str(name) for name in json.loads(found[FILES])], found.get(FEATURES)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise InputError(f"{path} is damaged ({error}): delete it, and do its files again") from error


def _digest(model: LinearContrast) -> str:
    """Of what sums depend on besides the samples: statistics of features, and the directions of the sums."""
    encoder = model.method_.framework.encoder
    digest = hashlib.blake2b(digest_size=8)
    for each in (encoder.center, encoder.scale, encoder.basis):
        digest.update(each.cpu().contiguous().numpy().tobytes())
    return digest.hexdigest()
