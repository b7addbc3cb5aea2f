"""Banks of views for estimators and commands: the library's own generator, views at hand, and the job on a data set."""

from __future__ import annotations

import contextlib
import hashlib
import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import torch
from torch import Tensor

import viewsmith
from viewsmith.core.errors import InputError
from viewsmith.data import Dataset
from viewsmith.data.folders import SUFFIXES, read_images
from viewsmith.data.images import same_shape
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.diffaug import DiffAug
from viewsmith.estimators.rows import fingerprint
from viewsmith.estimators.sessions import data_record, load_run
from viewsmith.methods.diffaug import DiffAugMethod
from viewsmith.training.bank import ViewBank, merge
from viewsmith.training.generation import ViewGenerator, check_noise, generate
from viewsmith.training.run import RunFolder
from viewsmith.views.adaptive import noise_shares, strength_of
from viewsmith.views.quality import ViewQuality

BLOCKS = {"unclip": 16, "diffusion": 256, "folder": 256}


class EmbeddedGenerator:
    """The conditional diffusion model of a DiffAug run as a generator of views, for any domain.

    Parameters
    ----------
    model : DiffAug
        Fitted, with a generator that learned something.
    steps : int, optional
        Of the sampler; by default the run's.

    Raises
    ------
    InputError
        The model generates nothing.
    """

    def __init__(self, model: ViewsmithEstimator, steps: int | None = None) -> None:
        if not isinstance(model, DiffAug) or not isinstance(model.method_, DiffAugMethod) or not model.generates:
            raise InputError(
                f"the run is of {type(model).__name__} and has no generator that learned anything: give a run of "
                "`viewsmith fit --method diffaug`"
            )
        self.model, self.generated = model, model.method_.generated
        self._seen: ViewQuality | None = None
        if steps is not None:
            self.generated.generator.steps = steps
        digest = hashlib.sha256()
        for name, value in sorted(model._weights().items()):
            digest.update(name.encode() + value.numpy().tobytes())
        self.weights = digest.hexdigest()[:16]

    @property
    def device(self) -> torch.device:
        return next(self.generated.parameters()).device

    def describe(self) -> dict[str, Any]:
        core = self.generated.generator
        return {
            "name": "diffusion",
            "version": viewsmith.__version__,
            "weights": self.weights,
            "sampler": core.sampler,
            "steps": core.steps,
            "guidance": core.guidance,
        }

    def shares(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        return noise_shares(self.generated.encoder, self.model._samples(rows.numpy()))

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        x = self.model._scaled(rows)
        if self._seen is None:
            self._seen = ViewQuality(self.generated.encoder, x)
        self._seen.axis.copy_(axis)
        return self._seen(x, self.model._scaled(views))

    @torch.no_grad()
    def generate(
        self, rows: Tensor, index: Tensor, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        x = self.model._scaled(rows)
        made = self.generated.make(x, None, streams, strength_of(level).to(self.device))
        views: Tensor = self.model.scaler_.inverse(made)
        return views.cpu().reshape(rows.shape)


class GivenViews:
    """Views that the user has already: a folder of images like the folder of the data, or an array.

    Parameters
    ----------
    path : Path
        A folder that has, for each image of the data, an image under the same name, whatever its suffix; for several
        views of each, subfolders 0, 1, ... of that kind. Or an .npz file with ``views``, (n, K, ...), as
        `viewsmith views` writes it.
    rows : ndarray, shape (n, ...)
        The samples.
    names : list of str, optional
        Their file names.

    Raises
    ------
    InputError
        Views are missing, or are not like the samples.
    """

    device = torch.device("cpu")

    def __init__(self, path: Path, rows: np.ndarray, names: list[str] | None) -> None:
        self.path, self.like = path, rows[:1]
        self.views: np.ndarray | None = None
        self.files: list[list[Path]] = []
        if path.is_dir():
            if names is None:
                raise InputError(f"{path} is a folder, and the data are none of images: give an .npz file with views")
            sides = sorted((each for each in path.iterdir() if each.name.isdigit()), key=lambda each: int(each.name))
            self.files = [[_image(side, name) for name in names] for side in (sides or [path])]
            self.n_views = len(self.files)
        else:
            self.views = _array(path, rows)
            self.n_views = self.views.shape[1]

    def describe(self) -> dict[str, Any]:
        return {"name": "folder", "version": "1", "path": str(self.path)}

    def shares(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        raise InputError("views that are there already have no noise level: leave the noise out")

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        raise InputError("views that are there already have no axis to tell quality by")

    def generate(
        self, rows: Tensor, index: Tensor, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        if self.views is not None:
            return torch.from_numpy(self.views[index.numpy(), view])
        height, width = self.like.shape[1:3]
        files = [self.files[view][row] for row in index.tolist()]
        found = read_images(files, height if height == width else None, self.like.shape[3:] == (3,))
        if found.shape[1:3] != (height, width) or found[:1].size != self.like.size:
            raise InputError(
                f"views in {files[0].parent} have shape {found.shape[1:]}, expected {self.like.shape[1:]} as the data"
            )
        return torch.from_numpy(found.reshape(-1, *self.like.shape[1:]))


def _image(folder: Path, name: str) -> Path:
    base = folder / name
    for file in (base, *(base.with_suffix(suffix) for suffix in SUFFIXES)):
        if file.is_file():
            return file
    raise InputError(f"{folder} has no view of {name}: expected an image of that name, with any suffix")


def _array(path: Path, rows: np.ndarray) -> np.ndarray:
    try:
        with np.load(path, allow_pickle=False) as content:
            views: np.ndarray = content["views"]
    except FileNotFoundError as error:
        raise InputError(f"no views at {path}: expected a folder of images, or an .npz file with views") from error
    except Exception as error:
        raise InputError(
            f"cannot read {path} as an .npz file with views ({type(error).__name__}): write it with numpy"
        ) from error
    if views.ndim < 2 or len(views) != len(rows) or not same_shape(views.shape[2:], rows.shape[1:]):
        expected = f"({len(rows)}, K, {', '.join(map(str, rows.shape[1:]))})"
        raise InputError(f"the views of {path} have shape {views.shape}, expected {expected} for these data")
    if views.dtype != rows.dtype:
        raise InputError(f"the views of {path} are {views.dtype}, expected {rows.dtype} as the data")
    return views.reshape(*views.shape[:2], *rows.shape[1:])


def generate_bank(
    dataset: Dataset,
    out: Path,
    *,
    generator: str = "diffusion",
    run: Path | None = None,
    seed: int = 0,
    views_per_sample: int | None = None,
    steps: int | None = None,
    guidance: float | None = None,
    scheduler: str | None = None,
    noise: str | None = None,
    shard: tuple[int, int] = (1, 1),
    batch_size: int | None = None,
    epochs: int | None = None,
    transductive: bool = False,
    device: str = "auto",
    progress: bool = False,
) -> ViewBank:
    """Make a bank of views of a data set, or the rest of one; what the command ``viewsmith generate`` does.

    Parameters
    ----------
    dataset : Dataset
        Its train rows, or with `transductive` all.
    out : Path
        Folder of the bank.
    generator : str
        ``diffusion``, ``unclip:FOLDER``, ``unclip:OWNER/NAME`` or ``folder:PATH``.
    run : Path, optional
        A DiffAug run whose generator to use; without it `diffusion` trains one and keeps it in the bank.
    seed : int
    views_per_sample : int, optional
        1; of a folder, as many as it has.
    steps : int, optional
        Of the sampler.
    guidance : float, optional
    scheduler : str, optional
        Of unclip.
    noise : str, optional
        ``adaptive`` (the default), ``random`` or ``constant:L``.
    shard : (int, int)
        i of n.
    batch_size : int, optional
        Samples in a block.
    epochs : int, optional
        Of the encoder, in the training of a generator.
    transductive : bool
    device : str
    progress : bool

    Raises
    ------
    InputError
        An option that does not fit, missing weights, another bank in the folder.
    """
    rows = np.ascontiguousarray(dataset.fit_rows(transductive))
    name, _, where = generator.partition(":")
    _refuse_options(name, where, run=run, guidance=guidance, scheduler=scheduler, noise=noise, steps=steps)
    context = data_record(dataset, transductive)
    record: dict[str, Any] = {
        "data": {"fingerprint": fingerprint(rows), "domain": dataset.domain, "transductive": transductive},
        "rows": len(rows),
        "seed": seed,
        "noise": "none" if name == "folder" else check_noise(noise or "adaptive"),
        "block": batch_size or BLOCKS[name],
    }
    bank = ViewBank(out)
    bank.refuse_others(record)  # before a training that would be for nothing
    with _withdrawn(bank):
        made: ViewGenerator
        if name == "folder":
            made = given = _given(Path(where), rows, dataset, transductive)
            if views_per_sample not in (None, given.n_views):
                raise InputError(f"{where} has {given.n_views} views of each sample, not {views_per_sample}")
            views_per_sample = given.n_views
        elif name == "unclip":
            made = _unclip(where, dataset.domain, steps, guidance, scheduler, device)
        elif run is not None:
            made = EmbeddedGenerator(_fitting(run, rows, dataset.domain), steps)
        else:
            made = EmbeddedGenerator(_trained(bank, rows, dataset, context, seed, epochs, shard, device), steps)
        bank.open_for(record | {"views_per_sample": views_per_sample or 1, "generator": made.describe()})
        generate(bank, torch.from_numpy(rows), made, shard=shard, progress=progress)
    return bank


def merge_banks(parts: Sequence[Path], out: Path) -> ViewBank:
    """One bank from the folders that shards of a job wrote; what ``viewsmith generate --merge`` does.

    An error leaves no new folder behind, unless there are blocks in it (`viewsmith.training.bank.merge`).
    """
    with _withdrawn(ViewBank(out)):
        return merge(parts, out)


def _given(path: Path, rows: np.ndarray, dataset: Dataset, transductive: bool) -> GivenViews:
    """Views at hand, of images by the names of their files."""
    names = dataset.row_names
    if names is None or dataset.domain != "images":
        return GivenViews(path, rows, None)
    return GivenViews(path, rows, [names[row] for row in (range(len(names)) if transductive else dataset.train_index)])


def _fitting(run: Path, rows: np.ndarray, domain: str) -> ViewsmithEstimator:
    """The model of a run on such rows."""
    model = load_run(run)
    if model.fitted_["domain"] != domain or not same_shape(rows.shape[1:], model.fitted_["row_shape"]):
        raise InputError(
            f"the run {run} is of {model.fitted_['domain']} of shape {tuple(model.fitted_['row_shape'])}, and the data "
            f"are {domain} of shape {rows.shape[1:]}: give a run on such data"
        )
    return model


def _refuse_options(name: str, where: str, **given: Any) -> None:
    if name not in BLOCKS or (name == "diffusion" and where):
        raise InputError(f"the generator is {name!r}, expected unclip:WEIGHTS, diffusion or folder:PATH")
    if name == "unclip" and not where:
        raise InputError(
            "unclip needs weights: name a folder, unclip:FOLDER, or a model on the hub to fetch, unclip:OWNER/NAME; "
            "published: unclip:stabilityai/stable-diffusion-2-1-unclip"
        )
    if name == "folder" and not where:
        raise InputError("folder needs a path: folder:PATH")
    own = {"diffusion": ("run", "noise", "steps"), "unclip": ("guidance", "scheduler", "noise", "steps"), "folder": ()}[
        name
    ]
    for option, value in given.items():
        if value is not None and option not in own:
            raise InputError(f"the generator {name!r} takes no {option}: leave --{option} out")


def _unclip(
    where: str, domain: str, steps: int | None, guidance: float | None, scheduler: str | None, device: str
) -> ViewGenerator:
    from viewsmith.estimators.fitting import find_device
    from viewsmith.views.unclip import GUIDANCE, STEPS, StableUnCLIP

    if domain != "images":
        raise InputError(f"unclip makes images, and the data are {domain}: take the generator 'diffusion'")
    return StableUnCLIP.load(
        where,
        device=find_device(device),
        steps=STEPS if steps is None else steps,
        guidance=GUIDANCE if guidance is None else guidance,
        scheduler=scheduler,
    )


def _trained(
    bank: ViewBank,
    rows: np.ndarray,
    dataset: Dataset,
    context: dict[str, Any],
    seed: int,
    epochs: int | None,
    shard: tuple[int, int],
    device: str,
) -> ViewsmithEstimator:
    """The bank's own generator: trained now, gone on with, or read."""
    folder = RunFolder(bank.path / "generator")
    if folder.exists() and folder.read_summary().get("status") == "finished":
        return load_run(folder.path)
    if shard != (1, 1):
        raise InputError(
            "shards need one generator that is there already: train it with `viewsmith fit DATA --method diffaug "
            "--set phases=AB --out RUN`, and give --run RUN to every shard"
        )
    model = DiffAug(
        phases="AB",
        domain=dataset.domain,
        impute=dataset.schema.get("impute", "none"),
        epochs=epochs or "auto",
        random_state=seed,
        device=device,
        verbose=True,
    )
    bank.path.mkdir(parents=True, exist_ok=True)
    return model.fit(rows, run=folder.path, resume=True, context=context)


@contextlib.contextmanager
def _withdrawn(bank: ViewBank) -> Iterator[None]:
    """Take back a new folder in which an error left nothing of use."""
    absent = not bank.path.exists()
    try:
        yield
    except BaseException:
        useful = [*bank.path.glob("blocks/*.safetensors"), *bank.path.glob("generator/checkpoint/*")]
        if absent and not useful and not (bank.path / "generator" / "model.safetensors").exists():
            shutil.rmtree(bank.path, ignore_errors=True)
        raise
