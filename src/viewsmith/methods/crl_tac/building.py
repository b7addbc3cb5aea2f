"""CRL-TAC's settings from its arguments, and the size of its crops, chosen without labels by short trainings."""

import copy
import dataclasses
import sys
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, TypeVar, get_args

import numpy as np
import torch
from sklearn.utils.validation import check_is_fitted
from torch import Tensor

from viewsmith.core import distributed
from viewsmith.core.distributed import OutOfTime, time_limit
from viewsmith.core.errors import InputError, check
from viewsmith.core.registry import entries, find
from viewsmith.core.rows import RowSource
from viewsmith.core.tensors import derive_seed, stream
from viewsmith.data.any_size import as_images
from viewsmith.estimator.plan import Facts, TrainingData, check_crops
from viewsmith.estimator.resolve import mean_of_processes, part_options, train_briefly
from viewsmith.losses.info_max import info_max
from viewsmith.methods.crl_tac.channel import Predicate, nonzero
from viewsmith.methods.crl_tac.families import is_custom, transforms_of
from viewsmith.methods.crl_tac.locations import KnownPlaces, near_views
from viewsmith.methods.crl_tac.options import Inference
from viewsmith.methods.crl_tac.training import CRLTACMethod
from viewsmith.methods.crl_tac.transforms import Crops, Family, crop_grid
from viewsmith.methods.discovery.images import ImageSearch
from viewsmith.modalities import Modality
from viewsmith.modalities.images.encoders import CropCNN

FRACTIONS = (1 / 4, 1 / 3, 1 / 2)  # of the shorter side of the images
CROP, STRIDE = 20, 4  # of the trials, in pixels of the resized images
TRIAL_ROWS, TRIAL_STEPS, TRIAL_BATCH = 1500, 200, 64
SCORED_ROWS, SCORED_AT_ONCE, DRAWS, BETA = 256, 64, 32, 5.0


def crop_sizes(row_shape: Sequence[int]) -> list[int]:
    """Sides of crops to choose from: multiples of `STRIDE`, at least `CROP`, at most half of the images."""
    side = min(row_shape[:2])
    return sorted({size for part in FRACTIONS if (size := max(CROP, int(side * part) // STRIDE * STRIDE)) <= side / 2})


def drawn_information(z: Tensor, p: Tensor, generator: torch.Generator) -> float:
    """Information (equation 2) of `DRAWS` views drawn from P(T|x), (B, M), with projections `z`, (B, M, d)."""
    t = torch.multinomial(p, DRAWS, replacement=True, generator=generator)
    drawn = z.gather(1, t[..., None].expand(-1, -1, z.shape[2]))
    return float(info_max(drawn, torch.full_like(drawn[..., 0], 1 / DRAWS), BETA).mean())


@torch.no_grad()
def information(method: CRLTACMethod, x: Tensor, generator: torch.Generator) -> float:
    """Mean of `drawn_information` over samples, `SCORED_AT_ONCE` at a time."""
    parts = [part for part in x.split(SCORED_AT_ONCE) if len(part) == SCORED_AT_ONCE] or [x]
    found = [
        drawn_information(method.every_projection(part), method.channel.log_p(part).exp(), generator) for part in parts
    ]
    return sum(found) / len(found)


def choose_crop_size(estimator: Any, options: Any, data: TrainingData) -> tuple[int, dict[str, float]]:
    """Choose the side of crops, in pixels, of the largest information after brief trainings on at most 1,500 images,
    resized so that crops have 20 pixels (docs, CRL-TAC, "Size of crops"); returns it and all scores."""
    sizes, shape = crop_sizes(data.row_shape), data.row_shape
    if len(sizes) < 2:
        line = f"crop_size is 'auto', but images are {shape[0]} x {shape[1]} pixels"
        raise InputError(
            f"{line}, too small to choose among crops of at least {CROP}: give it in pixels, or leave it out"
        )
    if tuple(options.crop_scales) != (1.0,):
        raise InputError("crop_size is 'auto' and crop_scales is given: choose one of them")
    order = torch.randperm(len(data.rows), generator=stream(data.seed, "crop size"))[:TRIAL_ROWS].sort().values.numpy()
    batch = min(TRIAL_BATCH, len(order))
    epochs = max(1, TRIAL_STEPS // (len(order) // batch))
    scores = {}
    for size in sizes:
        crops = {"crop_size": CROP, "crop_stride": STRIDE, "crop_scales": (CROP / size,)}
        # The score is the information alone.
        brief = {"epochs": epochs, "batch_size": batch, "recurrence_weight": 0, "start": "none"}
        trial = train_briefly(estimator, data, order, "crop size trial", **crops, **brief)
        generator = torch.Generator(data.device).manual_seed(derive_seed(data.seed, "crop size"))
        score = information(trial.method_, trial.samples(data.rows[order[:SCORED_ROWS]])[:], generator)
        scores[str(size)] = mean_of_processes(score, data.device)
    return max(sizes, key=lambda size: scores[str(size)]), scores


def with_crop_size(estimator: Any, options: Any, data: TrainingData) -> tuple[Any, dict[str, float]]:
    """Options with a size of crops in pixels, chosen if it is "auto"; and the scores of all sizes, if it is."""
    if options.crop_size != "auto":
        return options, {}
    size, scores = choose_crop_size(estimator, options, data)
    if options.verbose and distributed.rank() == 0:
        told = ", ".join(f"{side} {score:.2f}" for side, score in scores.items())
        print(f"crop_size: {size} pixels (information: {told})", file=sys.stderr)
    return dataclasses.replace(options, crop_size=size), scores


BLACK_ROWS = 1000

# Discovery before the training: in images of at least so many pixels, so many of them, in at most so many rows.
SMALLEST, FEWEST, PLACED = 48, 100, 5000
MAX_Q = 0.1

# Windows without boxes are a start only where they stand out so surely. Digits among fragments, .90: from places that
# hold parts of digits, CorLoc was .76 after the training, .95 as published; clothes, .97: .96 after 10 epochs.
SURE = 0.95
START_STEPS = 50
PART_OF_TIME = 0.3  # for discovery, at most
RECURRENCE = 3.0
Model = TypeVar("Model", bound=Any)


@dataclass(frozen=True, kw_only=True)
class CRLTACFacts(Facts):
    """Facts, with the transformations and what discovery has said."""

    family_options: dict[str, Any]  # options of the modality's transformations
    # information by size of crops, if the size was chosen automatically
    crop_size_scores: dict[str, float] = field(default_factory=dict)
    custom_family: dict[str, Any] | None = None  # size and shapes of a custom family, see `inspect_family`
    discovered: str = ""  # what discovery found, in one sentence; empty if it was not asked


def adapted(options: Any, defaults: Any, modality: Modality, rows: np.ndarray | RowSource) -> Any:
    """Options with the defaults that depend on the rows; `defaults` is the class with the others."""
    custom = is_custom(options.family)
    check_used(options, defaults, modality, custom)
    changes: dict[str, Any] = {"view_maker": "identity"}
    row_shape = rows.shape[1:]
    encoder, transforms = options.encoder, None if custom else transforms_of(modality)
    if transforms is not None and "crop_size" in transforms.options and encoder == "auto":
        side, stride = crop_grid(row_shape, options.crop_size, options.crop_stride)
        if side >= CropCNN.crop and stride % CropCNN.stride == 0:  # one pass encodes all crops
            changes["encoder"] = encoder = "crl-cnn"
    if options.learning_rate == "auto":
        # With a larger rate, projections lose most of their information about classes.
        rate = 5e-4 if encoder == "crl-cnn" else next(iter(entries("transforms", modality.name))).tag("learning_rate")
        changes |= {} if rate is None else {"learning_rate": rate}
    if options.scaling == "auto" and modality.is_image:
        # Zero is black, so that empty crops have no projection, or else the mean color: without biases, all
        # projections would have a direction in common.
        some = np.asarray(rows[np.linspace(0, len(rows) - 1, min(len(rows), BLACK_ROWS)).astype(int)])
        changes["scaling"] = "none" if (some == 0).mean() > 0.5 else "standard"
    return dataclasses.replace(options, **changes)


def has_crops(options: Any, modality: Modality) -> bool:
    """Whether the transformations are crops of images, of the modality or given."""
    if is_custom(options.family):
        return isinstance(options.family, Crops)
    return "crop_size" in transforms_of(modality).options


def start_steps_of(options: Any, family: Family, places: "Places | None") -> int:
    """Number of first steps at known places or with near positives; 0 without places where black stays zero."""
    if options.start_steps != "auto":
        return int(options.start_steps)
    if places is not None:
        return START_STEPS
    return START_STEPS if options.scaling != "none" and isinstance(family, Crops) else 0


@dataclass(frozen=True)
class Places:
    """What discovery found in the training images."""

    boxes: Tensor  # (n, 4): top, left, height, width; NaN without a part
    side: int  # side of crops of this size, a multiple of 4 pixels and at least 20


def discovered(options: Any, data: TrainingData) -> tuple[Places | None, str]:
    """The places that P(T|x) starts from, or None, and what discovery said; it takes a part of the time, at most."""
    try:
        with time_limit(None if options.minutes is None else PART_OF_TIME * 60 * options.minutes, data.device):
            return _discovered(options, data)
    except OutOfTime:
        return None, f"left out: it took longer than {PART_OF_TIME:.0%} of the time (minutes)"


def _discovered(options: Any, data: TrainingData) -> tuple[Places | None, str]:
    asked = options.start == "discovery"
    if options.start == "none" or options.channel == "uniform":
        return None, ""
    height, width = data.row_shape[:2] if len(data.row_shape) > 1 else (0, 0)
    crops = not is_custom(options.family) and has_crops(options, data.modality)
    if asked and not crops:
        raise InputError("start is 'discovery', which is for crops of images: leave it out")
    large = crops and options.encoder == "crl-cnn" and min(height, width) >= SMALLEST and len(data.rows) >= FEWEST
    if not (large or asked):
        return None, ""
    rng = np.random.default_rng(derive_seed(data.seed, "discovery"))
    rows = np.sort(rng.permutation(len(data.rows))[:PLACED])
    images = as_images(np.asarray(data.rows[rows]))
    search = ImageSearch(seed=data.seed)
    search.fit(images)
    if not search.parts:
        return None, f"nothing recurs: {search.describe()}"
    if not search.parts[0].boxed and search.parts[0].consistency < SURE:
        return None, f"no place is clear (probability at least {SURE}): {search.describe()}"
    found = search.candidates(images)
    found = found[found["q"] <= MAX_Q]
    if not len(found):
        return None, f"no place is clear (q at most {MAX_Q}): {search.describe()}"
    boxes = torch.full((len(data.rows), 4), torch.nan)
    corners = np.stack([found[side] for side in ("top", "left", "bottom", "right")], axis=1).astype(np.float32)
    sizes = corners[:, 2:] - corners[:, :2]
    boxes[rows[found["sample"]]] = torch.from_numpy(np.concatenate([corners[:, :2], sizes], axis=1))
    side = int(np.median(sizes.max(axis=1))) // CropCNN.stride * CropCNN.stride
    return Places(boxes, max(CropCNN.crop, min(side, min(height, width) // 2))), search.describe()


def known_places(places: Places, family: Family) -> KnownPlaces:
    """Q(T|x) of the training images."""
    boxes = family.boxes(torch.zeros(1))
    assert boxes is not None  # of crops
    return KnownPlaces(places.boxes, boxes[0])


def check_used(options: Any, defaults: Any, modality: Modality, custom: bool) -> None:
    """Raise InputError for options that are invalid or without effect; `defaults` is the class with the defaults."""
    if options.view_maker != "auto":
        raise InputError(f"view_maker is {options.view_maker!r}, expected 'auto': views are drawn from the channel")
    if isinstance(options.nonempty, str) and options.nonempty != "auto":
        expected = "'auto' or None, or in Python a function of views"
        raise InputError(f"nonempty is {options.nonempty!r}, expected {expected}")
    if options.distinct and options.objective == "information":
        raise InputError("distinct is of the objective 'bound', and has no effect with 'information': leave it out")
    for entry in entries("transforms"):
        for name in [name for name in entry.options if hasattr(defaults, name)]:
            if getattr(options, name) == getattr(defaults, name) or (entry.serves(modality.name) and not custom):
                continue
            where = "a custom family" if custom else modality.name
            raise InputError(f"{name} is an option of the {entry.tag('noun')} without effect for {where}: leave it out")
    if options.start_steps not in (0, "auto") and not has_crops(options, modality):
        where = "a custom family" if custom else modality.name
        raise InputError(f"start_steps is an option of crops without effect for {where}: leave it out")
    if options.temperature is not None:
        raise InputError(
            f"temperature is {options.temperature:g}, but crl-tac has no temperature: give its inverse as beta"
        )


def family_options_of(options: Any, modality: Modality, row_shape: tuple[int, ...]) -> dict[str, Any]:
    """Options of the modality's transformations; sizes of crops are in pixels."""
    found = part_options(options, [transforms_of(modality)], None, "family_options", type(options))
    if "crop_size" in found:
        found["crop_size"], found["crop_stride"] = crop_grid(row_shape, options.crop_size, options.crop_stride)
    return found


def check_crop(family_options: dict[str, Any], encoder: Any, data: TrainingData) -> None:
    """Check that the encoder accepts the crops; a custom encoder is tested on samples instead."""
    crop, size = family_options.get("crop_size"), data.row_shape[:2]
    if crop is not None and isinstance(encoder, str):
        entry = find("encoder", encoder, data.modality.name)
        check_crops("crops", (crop, crop), entry, encoder, data.modality, size, "take larger crops (crop_size)")


def recurrence_weight_of(options: Any, family: Family) -> float:
    """Weight of what recurs in the channel's objective: by default where black stays zero (docs), or 0."""
    if options.channel == "uniform":
        return 0.0
    if options.recurrence_weight != "auto":
        return float(options.recurrence_weight)
    return RECURRENCE if options.scaling == "none" and isinstance(family, Crops) else 0.0


def target_of(options: Any, family: Family) -> float | None:
    """Soft lower limit of the effective number of transformations."""
    target = options.effective_target
    if target == "auto":
        return min(8.0, 0.9 * family.size)
    if target is not None and target > family.size:
        raise InputError(
            f"effective_target is {target:g}, expected at most {family.size}, the number of transformations: lower it"
        )
    return None if target is None else float(target)


def near_of(family: Family) -> Tensor | None:
    """Which crops are near each other, bool (M, M); None for other transformations."""
    if not isinstance(family, Crops):
        return None
    return near_views(family.boxes(torch.zeros(1))[0])


def nonempty_of(options: Any, modality: Modality) -> Predicate | None:
    """Which views are not empty: a custom function; not all black, for unscaled images; otherwise unknown (None)."""
    if callable(options.nonempty):
        return options.nonempty
    return nonzero if options.nonempty == "auto" and modality.is_image and options.scaling == "none" else None


def with_inference(model: Model, inference: str | None) -> Model:
    """A copy of a fitted CRL-TAC model, with the same weights, whose representation is another average."""
    check_is_fitted(model)
    if inference is None:
        return model
    check(inference in get_args(Inference), "inference", repr(inference), "'expectation', 'top' or 'uniform'")
    other, method = copy.copy(model), copy.copy(model.method_)
    other.method_, method.options = method, dataclasses.replace(method.options, inference=inference)
    return other
