"""Discovery: the part that recurs in images, sequences or recordings, and where it is, without labels or training."""

import contextlib
import copy
import os
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Self

import numpy as np
import torch
from sklearn.base import BaseEstimator
from sklearn.utils.validation import check_is_fitted
from torch import nn

from viewsmith.core.errors import InputError, check, warn
from viewsmith.core.registry import find, get
from viewsmith.core.tensors import AllocationLimit, load_tensors, read_published, save_tensors
from viewsmith.data.any_size import ImageList, as_images
from viewsmith.estimator.arguments import with_shared
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.fitting import find_device
from viewsmith.estimator.options import check_options
from viewsmith.methods.discovery.events import EventSearch
from viewsmith.methods.discovery.images import ImageSearch
from viewsmith.methods.discovery.motifs import MotifSearch
from viewsmith.methods.discovery.network_maps import NetworkMaps, network_maps
from viewsmith.methods.discovery.options import ONE_STRAND, DiscoveryOptions, check_modality
from viewsmith.methods.discovery.pieces import PieceSearch
from viewsmith.modalities import modality_of
from viewsmith.modalities.dna.letters import is_rna
from viewsmith.modalities.dna.modality import Letters
from viewsmith.modalities.images.encoders import load_timm_weights, timm_scaling
from viewsmith.networks.base import EncoderContext
from viewsmith.training.run import RunFolder

TIMM = "timm:"
LEARNED = ("auto", "pieces", "patches")  # from the images


def features_of(features: Any, layer: str | None, weights: str | None, channels: int) -> Any:
    """What `ImageSearch` takes as features: "patches", a function, or `NetworkMaps`."""
    named = isinstance(features, str) and features.startswith(TIMM)
    if weights is not None and not named:
        raise InputError(f"feature_weights is {weights!r}, but the features are {features!r}: expected timm:NAME")
    if named:
        return _of_timm(features, layer, weights, channels)
    model = model_of(features)
    if model is not None:
        trained: Any = getattr(model.method_, "framework", model.method_)
        encoder, scaler = copy.deepcopy(trained.encoder).cpu(), model.scaler_
        if model.modality_.name != "images" or scaler.channels != channels:
            raise InputError(
                f"the model of the features was trained on {model.modality_.name} of shape "
                f"{model.facts_.row_shape}, expected one that was trained on images with {channels} channels"
            )
        return network_maps(encoder, scaler.center.cpu(), scaler.scale.cpu(), layer)
    if isinstance(features, nn.Module):
        return network_maps(copy.deepcopy(features), torch.zeros(channels), torch.ones(channels), layer)
    if layer is not None:
        raise InputError(f"feature_layer is {layer!r}, but the features are no network: leave it out")
    if features not in LEARNED and not callable(features):
        raise InputError(
            f"features is {features!r}, expected auto, pieces, patches, timm:NAME, a trained model or its folder, "
            "or a network or function of images"
        )
    return features


def model_of(features: Any) -> ViewsmithEstimator | None:
    """The trained model whose encoder gives the features, or None."""
    if isinstance(features, ViewsmithEstimator):
        return features
    if not isinstance(features, str | Path) or features in LEARNED or str(features).startswith(TIMM):
        return None
    folder = RunFolder(features)
    if not folder.path.is_dir():
        raise InputError(
            f"features is {str(features)!r}, expected auto, pieces, patches, timm:NAME, or the folder of a model "
            "that was trained on images"
        )
    config = folder.read_config()
    entry = get("method", str(config.get("method", "")))
    if entry is None:
        raise InputError(f"{folder.config} is of the method {config.get('method')!r}, which has no encoder")
    return entry.build._load(folder, config, {})  # type: ignore[attr-defined]


def _of_timm(name: str, layer: str | None, weights: str | None, channels: int) -> NetworkMaps:
    """A network of timm with its own scaling of pixels."""
    context = EncoderContext((0, 0, channels), channels, 0, name=name)
    limit: Any = contextlib.nullcontext()
    if weights is not None and Path(weights).is_file():
        limit = AllocationLimit(read_published(Path(weights), "feature_weights", name), name)
    with limit:
        network: nn.Module = find("encoder", name, "images").build(context)
    load_timm_weights(network, context, weights or "pretrained", "feature_weights")
    center, scale = timm_scaling(network, channels)
    return network_maps(network, center, scale, layer)


SEARCHES: dict[str, Any] = {search.name: search for search in (ImageSearch, MotifSearch, EventSearch)}

#: Options that only one kind of data has.
OWN = {
    **dict.fromkeys(("image_size", "features", "feature_layer", "feature_weights", "cache", "device"), "images"),
    "both_strands": "dna",
}

FEATURES, WEIGHTS = "features", "features.safetensors"  # in the folder of a saved model
CROP = {"images": 32, "letters": 40, "series": 128}
LEAST_WINDOW = {"images": 2, "letters": 4, "series": 8}


@dataclass(kw_only=True, eq=False, repr=False)
class Discovery(DiscoveryOptions, BaseEstimator):
    """Find what recurs in images, DNA, proteins or recordings, and where, without labels.

    Windows are chosen that look alike across samples and unlike windows in general
    (`viewsmith.methods.discovery.contrast`). In images, the box that holds each part is found, whatever its size; it
    works where each image, or most of them, has one or a few of some kind of object that differs in color or texture
    from the rest, such as cells in micrographs. In DNA and proteins it is a motif, with MEME's model, in DNA on either
    strand; in recordings an event, such as a heart beat.

    Parameters
    ----------
    [shared]

    Attributes
    ----------
    parts_ : list
        One for each kind that recurs, a `Part` (images), `Motif` or `Event`; empty if nothing does.
    tried_ : list of lists
        For each kind, the solutions among which it was chosen.
    recurs_ : bool
        Whether anything recurs.
    modality_ : str

    Notes
    -----
    The q-value of a part (Benjamini and Hochberg 1995) is the expected fraction of wrong parts among those with at
    least its score. It compares the score with the best scores where the part is not: in images beside their best
    part; where most images have a second one, and of small kinds, in images with the same spectra and random phases; in
    such recordings; in sequences drawn from the background. All samples count as if they had no part. The first part of
    a sample is judged as if no other was sought. It says whether this sample has the part, not whether the part is
    meaningful. In images q-values of small kinds, and of a kind that fills the images, do not hold.

    Examples
    --------
    >>> from viewsmith import Discovery
    >>> model = Discovery().fit(images)  # doctest: +SKIP
    >>> boxes = model.locate(images)  # doctest: +SKIP
    """

    name = "discovery"

    def fit(self, X: Any, y: Any = None) -> Self:
        """Find what recurs in samples.

        Parameters
        ----------
        X : array-like
            Images: (n, H, W, C), whole numbers also (n, H, W), or a list of images of any sizes. DNA, proteins:
            strings, or ASCII letters uint8 (n, L), 0 after the end. Recordings: numbers (n, T), or (n, C, T) with
            modality="series".
        y : ignored

        Raises
        ------
        InputError
            Less than four samples, samples that are too small for a window, or all the same; an option out of its
            range.
        """
        checked = self._checked()
        self.modality_ = kind_of(X) if checked.modality == "auto" else checked.modality
        if self.modality_ == "dna" and checked.both_strands == "auto":
            checked.both_strands = not is_rna(X)
            if not checked.both_strands:
                warn(f"{ONE_STRAND} (both_strands=True: on both)")
        X = as_images(X).remembered() if self.modality_ == "images" else X
        search = checked._search(self.modality_, getattr(X, "channels", 0))
        if self.modality_ == "images" and self.features == "auto" and self.windows is None and self.kinds == 1:
            pieces = PieceSearch(max_parts=checked.max_parts, seed=checked.random_state)
            search = pieces if pieces.plain(X) else search
        search.fit(X)
        self.search_ = search
        if not search.parts:
            warn(f"nothing recurs in these samples: {self.describe()}")
        return self

    @property
    def parts_(self) -> list[Any]:
        """One part for each kind that recurs."""
        check_is_fitted(self)
        return list(self.search_.parts)

    @property
    def tried_(self) -> list[Any]:
        """For each kind, the solutions among which it was chosen."""
        check_is_fitted(self)
        return list(self.search_.tried)

    @property
    def recurs_(self) -> bool:
        """Whether anything recurs."""
        return bool(self.parts_)

    def describe(self, parts: np.ndarray | None = None, n_samples: int | None = None) -> str:
        """What was found, in plain words.

        Parameters
        ----------
        parts : structured array, optional
            What `locate` returned: then also in how many samples each kind is, and how many of its places may be
            wrong, by their q-values.
        n_samples : int, optional
            Number of the samples that were given to `locate`. Default: up to the last one with a part.
        """
        check_is_fitted(self)
        if parts is None:
            least = min(self.search_.least_q, default=0.0)
            if least > self.max_q:
                return f"something may recur, but no place is sure enough: the surest has q = {least:.2g} (max_q)"
            return str(self.search_.describe())
        count = int(parts["sample"].max(initial=-1)) + 1 if n_samples is None else n_samples
        return str(self.search_.summary(parts, count, self.max_q, self.unjudged))

    def locate(self, X: Any) -> np.ndarray:
        """Places of the parts in samples.

        Returns
        -------
        structured array
            A row for each part, with the fields ``sample``, ``kind`` (from 0), the place, ``score`` (nats: how much
            more probable its best window is as one of the kind than as anything equally unlike all windows), ``q``
            and ``outlier``: whether it is unlike the others of its kind; then it comes after those in its sample. The
            place, from 0, is ``left``, ``top``, ``right``, ``bottom`` (the last two outside) in the pixels of the
            image; ``start``, ``end`` (outside) in letters and ``reverse`` (on the other strand); or ``start``, ``end``
            in points. Only parts with a q-value of at most ``max_q`` are listed, so a sample may have none; parts of
            kinds whose q-values do not hold with ``unjudged`` alone.
        """
        check_is_fitted(self)
        found, checked, kinds = self.search_.candidates(X), self._checked(), range(len(self.parts_))
        listed = np.array([checked.unjudged or kind == 0 or self.search_.judged(kind) for kind in kinds], bool)
        found = np.asarray(found[(found["q"] <= checked.max_q) & listed[found["kind"]]])
        if 2 * (unlike := int(found["outlier"].sum())) > len(found):
            warn(
                f"{unlike:,} of {len(found):,} parts are unlike those that it was fitted to: q-values do not hold in "
                "samples of other things"
            )
        return found

    def score_samples(self, X: Any) -> np.ndarray:
        """The score of the best part of the first kind in each sample, float64 (n,); -inf if nothing recurs."""
        check_is_fitted(self)
        found, scores = self.search_.candidates(X), np.full(len(X), -np.inf)
        first = found[found["kind"] == 0]
        np.maximum.at(scores, first["sample"], first["score"])
        return scores

    def crops(self, X: Any, size: int | None = None) -> tuple[Any, np.ndarray]:
        """What is at the parts, as samples for other methods.

        Parameters
        ----------
        X : array-like
            As in `fit`.
        size : int, optional
            Side in pixels, letters or points. Default: 32, 40, 128.

        Returns
        -------
        crops : ndarray or list of str
            (m, size, size, channels), in the type of the images; m strings, read from the strand of the site; float32
            (m, C, size).
        parts : structured array
            What `locate` returns.
        """
        check(size is None or size >= 1, "size", size, "at least 1")
        found = self.locate(X)
        return self.search_.crops(X, found, CROP[searched(self.modality_)] if size is None else size), found

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the model as a folder of plain text and safetensors.

        The weights of a network of timm are written; a trained model that gives the features goes into the folder
        ``features``. Own networks and functions are not saved.

        Raises
        ------
        InputError
            The features are an own network or function; the folder has a run of something else.
        """
        check_is_fitted(self)
        folder, model = RunFolder(path), model_of(self.features)
        if model is None and not isinstance(self.features, str):
            raise InputError(
                f"features is of the type {type(self.features).__name__}, which cannot be saved: expected 'patches', "
                "timm:NAME or a trained model"
            )
        fitted, tensors = self.search_.state()
        ours = folder.exists() and folder.read_config().get("method") == self.name
        if not ours and any(os.path.lexists(file) for file in folder.files):
            raise InputError(f"{folder.path} has files of something else, which would be replaced: choose another")
        os.makedirs(path, exist_ok=True)
        windows = None if self.windows is None else list(self.windows)
        parameters = self.get_params() | {"cache": None, "device": "auto", "windows": windows}
        if model is not None:
            model.save(folder.path / FEATURES)
            parameters["features"] = FEATURES
        elif self.features in LEARNED:
            if self.modality_ == "images":
                parameters["features"] = "pieces" if isinstance(self.search_, PieceSearch) else "patches"
        else:
            save_tensors(folder.path / WEIGHTS, self.search_.dense.weights())
            parameters["feature_weights"] = WEIGHTS
        named = {"method": self.name, "modality": self.modality_}
        folder.write_config(named | {"parameters": parameters, "fitted": fitted})
        save_tensors(folder.model, tensors)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> Self:
        """Read a model that `save` wrote.

        Raises
        ------
        InputError
            There is no such model, or it is damaged.
        """
        folder = RunFolder(path)
        config = folder.read_config()
        if config.get("method") != cls.name:
            raise InputError(f"{folder.config} is of the method {config.get('method')!r}, expected {cls.name!r}")
        try:
            pairs = config["parameters"].items()
            given: dict[str, Any] = {name: None if value == "none" else value for name, value in pairs}
            # What `save` put into the folder.
            for name, written in (("features", FEATURES), ("feature_weights", WEIGHTS)):
                if given.get(name) == written:
                    given[name] = str(folder.path / written)
            model = cls(**given)
            model.modality_ = config["modality"]
            search = model._search(model.modality_, int(config["fitted"].get("channels", 0)))
            search.restore(config["fitted"], load_tensors(folder.model))
        except (KeyError, TypeError, ValueError) as error:
            raise InputError(f"{folder.path} is damaged ({error}): fit and save again") from error
        model.search_ = search
        return model

    def _checked(self) -> "Discovery":
        """The same options with values of their types; raises InputError for one out of its range."""
        return check_options(Discovery, self.get_params(deep=False))

    def _search(self, modality: str, channels: int) -> Any:
        """The search in this kind of data, with the options that it has; `channels` of images."""
        options = {name: getattr(self, name) for name, of in OWN.items() if of == modality}
        kind = searched(modality)
        for name, of in OWN.items():
            if of != modality and getattr(self, name) != getattr(DiscoveryOptions, name):
                raise InputError(f"{name} is an option for {of}, and the data are {modality}: leave it out")
        if self.windows is not None and min(self.windows, default=0) < LEAST_WINDOW[kind]:
            raise InputError(
                f"windows is {list(self.windows)}, expected whole numbers of at least {LEAST_WINDOW[kind]} "
                f"for {modality}"
            )
        if modality == "images":
            layer, weights = options.pop("feature_layer"), options.pop("feature_weights")
            options["device"] = find_device(self.device)
            options["features"] = features_of(self.features, layer, weights, channels)
        if kind == MotifSearch.name:
            options["modality"] = modality
        if self.features == "pieces":
            return PieceSearch(max_parts=self.max_parts, seed=self.random_state)
        return SEARCHES[kind](
            windows=self.windows, kinds=self.kinds, max_parts=self.max_parts or 1, seed=self.random_state, **options
        )


Discovery.__doc__ = with_shared(Discovery, Discovery.__doc__ or "")


def kind_of(X: Any) -> str:
    """The modality of samples: letters are DNA or proteins, other numbers of two dimensions recordings, everything else
    images."""
    dtype, dimensions = str(getattr(X, "dtype", "")), getattr(X, "ndim", 0)
    if isinstance(X, list | tuple):
        letters = bool(X) and all(isinstance(x, str | bytes) for x in X)
    elif isinstance(X, ImageList):
        return "images"
    else:
        coded = dimensions == 2 and modality_of("dna").samples.is_type(dtype)
        letters = coded or dtype == "object" or dtype.startswith(("<U", "|S", "str"))
    if letters:
        return "proteins" if modality_of("proteins").recognizes(X) else "dna"
    return "series" if dimensions == 2 else "images"


def searched(modality: str) -> str:
    """The name of the search in samples of a modality: that of motifs for letters."""
    check_modality(modality)
    return MotifSearch.name if isinstance(modality_of(modality), Letters) else modality
