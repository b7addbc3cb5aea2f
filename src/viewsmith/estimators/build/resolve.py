"""What "auto" means: settings that depend on the domain, the framework, the encoder and the number of rows."""

from __future__ import annotations

import importlib
import math
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.core.samples import Rows
from viewsmith.networks import alexnet, cnn, resnet
from viewsmith.networks.hyena import MAX_LENGTH
from viewsmith.views.fixed.images import PairedImageViews, image_recipe

FRAMEWORKS = ("simclr", "moco", "moco-v3", "byol", "simsiam", "swav", "dino")

_EDITS = ("reverse-complement", "mutation", "insertion", "deletion", "translocation", "inversion")
VIEWS: dict[str, tuple[str, ...]] = {
    "vectors": (
        "identity",
        "noise",
        "corruption",
        "mixup",
        "neighbor-mix",
        "neighbors",
        "adversarial",
        "conditional",
    ),
    "images": (
        "simclr",
        "byol",
        "moco",
        "multicrop",
        "grid-crop",
        "identity",
        "noise",
        "mixup",
        "neighbors",
        "neighbor-mix",
        "adversarial",
    ),
    "dna": ("dna", *_EDITS, "identity", "noise", "mixup", "neighbors", "adversarial"),
}
ENCODERS: dict[str, tuple[str, ...]] = {
    "vectors": ("mlp",),
    "images": ("cnn", "resnet18", "resnet50", "crl-cnn", "split-alexnet"),
    "dna": ("cnn", "hyena"),
}
GENERATORS: dict[str, tuple[str, ...]] = {
    "vectors": ("mlp",),
    "images": ("low-resolution", "unet", "resnet18", "shared"),
    "dna": ("sequence", "shared"),
}
# Smallest side of the images that an encoder, or a generator, takes.
FEWEST_PIXELS = {
    "cnn": cnn.SMALLEST,
    "resnet18": resnet.SMALLEST,
    "resnet50": resnet.SMALLEST,
    "crl-cnn": cnn.CropCNN.crop,
    "split-alexnet": alexnet.SMALLEST["small"],
}
WITH_STEM = ("cnn", "resnet18", "resnet50", "crl-cnn")
CHANNEL = "channel:"  # before the run of CRL-TAC whose augmentation channel makes the views
DEFAULT_VIEWS = {"vectors": "neighbors", "images": "simclr", "dna": "dna"}
MULTICROP_FRAMEWORKS = ("swav", "dino")

#: What fit keeps beside the options and a model cannot be rebuilt without.
RESOLVED = (
    "domain",
    "row_shape",
    "seed",
    "scaling",
    "view_maker",
    "kernel",
    "temperature",
    "epochs",
    "input_components",
    "encoder",
    "learning_rate",
    "queue_size",
    "n_components",
    "noise_strength",
    "named",
    "feature_names",
)

# The neighbor recipe needs about this many steps, whatever the number of rows; on images and DNA the number keeps a
# run on two CPU cores within ten minutes.
STEPS = {"vectors": 2000, "images": 1500, "dna": 1500}
STEPS_ON_GPU = {"vectors": 2000, "images": 20_000, "dna": 10_000}
WIDE = 200


def default_epochs(n_rows: int, batch_size: int, steps: int = STEPS["vectors"]) -> int:
    """Epochs that take about `steps` steps."""
    return math.ceil(steps / max(1, n_rows // min(batch_size, n_rows)))


def resolve(options: SimpleNamespace, domain: str, x: Rows, device: torch.device) -> dict[str, Any]:
    """Every setting that "auto" leaves to the data: plain values, kept with the model.

    Parameters
    ----------
    options : SimpleNamespace
        Checked constructor arguments.
    domain : {"vectors", "images", "dna"}
    x : Tensor or Samples, n rows
        Scaled training rows.
    device : torch.device

    Raises
    ------
    InputError
        A combination that does not exist: what was asked for, what there is.
    """
    view_maker = DEFAULT_VIEWS[domain] if options.view_maker == "auto" else options.view_maker
    names = view_names(view_maker, domain)
    kernel = _kernel(options, domain, names)
    if "multicrop" in names and options.framework not in MULTICROP_FRAMEWORKS:
        raise InputError(
            f"multicrop views are for the frameworks {' and '.join(MULTICROP_FRAMEWORKS)}, not {options.framework!r}: "
            f"choose one of them, or the views {', '.join(v for v in VIEWS['images'] if v != 'multicrop')}"
        )
    if names.count("multicrop") > 1:
        raise InputError(f"view_maker is {view_maker!r}, expected multicrop once: leave the others out")
    if domain == "dna" and options.mutation_rate > 0.75:
        # Three of four letters drawn at random differ from the one that was there.
        raise InputError(f"mutation_rate is {options.mutation_rate}, expected at most 0.75, where no letter is known")
    steps = (STEPS if device.type == "cpu" else STEPS_ON_GPU)[domain]
    resolved = {
        "view_maker": view_maker,
        "kernel": kernel,
        "temperature": options.temperature
        if options.temperature is not None
        else _temperature(options, domain, kernel),
        "epochs": default_epochs(len(x), options.batch_size, steps) if options.epochs == "auto" else options.epochs,
        "input_components": _principal_axes(options, domain, names, x),
        "encoder": _encoder(options.encoder, domain, device),
        "learning_rate": 3e-3 if options.learning_rate == "auto" else options.learning_rate,
        "queue_size": min(65_536, max(options.batch_size, len(x) // 2))
        if options.queue_size == "auto"
        else options.queue_size,
    }
    batch = min(options.batch_size, len(x))
    if options.framework == "moco" and resolved["queue_size"] < batch:
        raise InputError(
            f"queue_size is {resolved['queue_size']}, expected at least the {batch} rows of a batch: raise it, "
            "or lower batch_size"
        )
    if hasattr(options, "generator"):
        resolved["generator"] = _generator(options.generator, domain, resolved["encoder"])
    if domain == "images":
        _check_pixels(resolved, x[:2], names, options)
    if resolved["encoder"] == "hyena" and x[:1].shape[2] > MAX_LENGTH:
        raise InputError(
            f"the longest sequence has {x[:1].shape[2]} bases, and the encoder hyena takes at most {MAX_LENGTH}: "
            "cut sequences into pieces, or take the encoder cnn"
        )
    resolved["n_components"] = _n_components(options, resolved["encoder"], x)
    return resolved


def view_names(view_maker: str, domain: str) -> list[str]:
    """The names joined by "+".

    Raises
    ------
    InputError
        A name is unknown in this domain.
    """
    names = view_maker.split("+")
    for name in names:
        if name not in VIEWS[domain] and not name.startswith(CHANNEL):
            raise InputError(
                f"unknown view maker {name!r}: for {domain} there are {', '.join(VIEWS[domain])}, {CHANNEL}RUN"
            )
        if name == CHANNEL:
            raise InputError(f"view_maker is {view_maker!r}, expected {CHANNEL}RUN, the folder of a run of crl-tac")
    for name in names[:-1]:
        if name == "grid-crop" or name.startswith(CHANNEL):
            raise InputError(f"view_maker is {view_maker!r}: {name} changes the shape of a sample, put it last")
    return names


def crop_of(
    row_shape: Sequence[int], size: int | Literal["auto"] = "auto", stride: int | Literal["auto"] = "auto"
) -> tuple[int, int]:
    """Side and distance of CRL-TAC's crops: the paper's, 20 and 4, where images are large enough to choose from."""
    side = min(row_shape[:2])
    usual = (20, 4) if side >= 24 else (max(1, round(side * 5 / 7)), max(1, side // 8))
    return usual[0] if size == "auto" else size, usual[1] if stride == "auto" else stride


def _kernel(options: SimpleNamespace, domain: str, names: Sequence[str]) -> str:
    if options.framework == "info-max":
        return "cosine"
    if options.framework == "soft":
        if options.kernel in ("cauchy", "cosine"):
            raise InputError(f"the kernel {options.kernel!r} is for the framework 'simclr': leave it out")
        return "paper" if options.kernel == "auto" else str(options.kernel)
    if options.kernel in ("paper", "plain", "published"):
        raise InputError(f"the kernel {options.kernel!r} is for the framework 'soft', not {options.framework!r}")
    if options.framework != "simclr":
        if options.kernel == "cauchy":
            raise InputError(
                f"the Cauchy kernel is for the framework 'simclr', not {options.framework!r}: leave it out"
            )
        return "cosine"
    if options.kernel != "auto":
        return str(options.kernel)
    return "cauchy" if domain == "vectors" or "neighbors" in names else "cosine"


def _temperature(options: SimpleNamespace, domain: str, kernel: str) -> float:
    if kernel == "cauchy":
        return 1.0
    published = {"soft": 0.1, "moco": 0.2, "moco-v3": 1.0, "swav": 0.1, "dino": 0.1, "byol": 1.0, "simsiam": 1.0}
    return published.get(options.framework, 0.2 if domain == "images" else 0.1)


def _principal_axes(options: SimpleNamespace, domain: str, names: Sequence[str], x: Rows) -> int:
    """Number of principal axes before the encoder of vectors (0: none)."""
    if domain != "vectors":
        return 0
    n, d = len(x), x[:1].shape[1]
    axes = options.input_components
    if axes == "auto":
        axes = 50 if d > WIDE and any(name.startswith("neighbor") for name in names) else None
    return min(axes or 0, d, n)


def _encoder(encoder: str | nn.Module, domain: str, device: torch.device) -> str:
    if isinstance(encoder, nn.Module):
        return f"module:{type(encoder).__name__}"
    if encoder == "auto":
        return "resnet18" if domain == "images" and device.type == "cuda" else ENCODERS[domain][0]
    if encoder in ENCODERS[domain] or (domain == "images" and encoder.startswith("timm:")):
        return encoder
    further = ", timm:NAME" if domain == "images" else ""
    raise InputError(
        f"encoder is {encoder!r}, expected auto, {', '.join(ENCODERS[domain])}{further} for {domain}, "
        "or a torch.nn.Module of your own"
    )


def _generator(generator: str, domain: str, encoder: str) -> str:
    known = GENERATORS[domain]
    if generator == "auto":
        return known[0]
    if generator not in known:
        raise InputError(f"generator is {generator!r}, expected auto or {' or '.join(known)} for {domain}")
    if generator == "shared" and encoder not in WITH_STEM:
        raise InputError(
            f"generator 'shared' looks at the encoder's first stage, which {encoder} does not offer: take one of "
            f"{', '.join(name for name in ENCODERS[domain] if name in WITH_STEM)}, or {' or '.join(known[:-1])}"
        )
    return generator


def _check_pixels(resolved: dict[str, Any], x: Tensor, names: Sequence[str], options: SimpleNamespace) -> None:
    """Refuse images (2, C, H, W), and small crops of them, that the encoder or the generator cannot take."""
    size = tuple(x.shape[2:])
    for part in ("encoder", "generator"):
        fewest = FEWEST_PIXELS.get(resolved.get(part, ""), 1)
        if min(size) < fewest:
            smaller = f"take another {part}, " if min(size) >= cnn.SMALLEST else ""
            raise InputError(
                f"the images have {_pixels(size)}, and the {part} {resolved[part]} takes {_pixels((fewest, fewest))} "
                f"or more: {smaller}enlarge them, or take every row as a flat vector with domain='vectors' "
                "(--domain vectors)"
            )
    crops = {}
    if "multicrop" in names:
        maker = image_recipe("multicrop", size=(size[0], size[1]))
        assert isinstance(maker, PairedImageViews)
        crops["small crops of multicrop"] = maker.size
    if "grid-crop" in names:
        crops["crops of grid-crop"] = (crop_of(size)[0],) * 2
    if names[-1].startswith(CHANNEL):
        crops["crops of the channel"] = (options.channel_from["crop_size"],) * 2
    for what, pixels in crops.items():
        check_crops(what, pixels, resolved["encoder"], size)
        if isinstance(options.encoder, nn.Module):
            probe(options.encoder, resolved["encoder"], x.new_zeros(*x.shape[:2], *pixels))


def check_crops(
    what: str, pixels: Sequence[int], encoder: str, size: Sequence[int], todo: str = "take other views"
) -> None:
    """Refuse crops of images of `size` that are too small for the encoder; `todo` is what to do about the crops."""
    fewest = FEWEST_PIXELS.get(encoder, 1)
    if min(pixels) < fewest:
        raise InputError(
            f"of images of {_pixels(size)} the {what} have {_pixels(pixels)}, and the encoder {encoder} takes "
            f"{_pixels((fewest, fewest))} or more: {_instead(todo, encoder, pixels, size)}"
        )


def _instead(todo: str, encoder: str, pixels: Sequence[int], size: Sequence[int]) -> str:
    """What to do about crops that are too small: only what can help."""
    others = min(pixels) >= cnn.SMALLEST and FEWEST_PIXELS.get(encoder, 1) > cnn.SMALLEST
    enlarge = "" if min(size) > cnn.SMALLEST else ", enlarge the images, or take rows as vectors (--domain vectors)"
    return f"{todo}{', or another encoder' if others else ''}{enlarge}"


def _pixels(size: Sequence[int]) -> str:
    return f"{size[0]} x {size[1]} pixels"


def _n_components(options: SimpleNamespace, encoder: str, x: Rows) -> int:
    fixed = {"resnet18": 512, "resnet50": 2048, "hyena": 128}
    wanted = options.n_components
    if encoder in ("mlp", "cnn", "crl-cnn", "split-alexnet"):
        return int(wanted) if wanted != "auto" else 200 if encoder == "crl-cnn" else 256
    width = fixed.get(encoder) or probe(options.encoder, encoder, x)
    if wanted not in ("auto", width):
        raise InputError(f"n_components is {wanted}, but the encoder {encoder} gives {width}: leave n_components out")
    return width


def probe(module: nn.Module | str, name: str, x: Rows) -> int:
    """Width of what an encoder makes of two samples.

    Raises
    ------
    InputError
        It fails on them, or gives something else than a row a sample.
    """
    if isinstance(module, str):
        return timm_encoder(module, x[:1].shape[1])[1]
    training, sample = module.training, x[:2]
    try:
        device = next((p.device for p in module.parameters()), sample.device)
        with torch.no_grad():
            h = module.eval()(sample.to(device))
    except Exception as error:
        raise InputError(
            f"the encoder {name.removeprefix('module:')} fails on samples of shape {tuple(sample.shape[1:])}: "
            f"{type(error).__name__}: {' '.join(str(error).split())}"
        ) from error
    finally:
        module.train(training)
    if not isinstance(h, Tensor) or h.shape[:1] != (2,) or h.ndim != 2:
        shape = tuple(h.shape) if isinstance(h, Tensor) else type(h).__name__
        raise InputError(f"the encoder {name.removeprefix('module:')} gives {shape} for 2 samples, expected (2, width)")
    return h.shape[1]


def timm_encoder(name: str, channels: int) -> tuple[nn.Module, int]:
    """The network that ``timm:NAME`` names, without its classifier (extra ``timm``), and the width it gives."""
    try:
        timm: Any = importlib.import_module("timm")
    except ImportError as error:
        raise MissingExtra("timm", "timm", f"the encoder {name!r}") from error
    except RuntimeError as error:  # timm needs torchvision, which fails so when it was built for another torch
        raise InputError(f"timm cannot be imported ({error}): install a torchvision that fits torch") from error
    try:
        network: nn.Module = timm.create_model(name.removeprefix("timm:"), num_classes=0, in_chans=channels)
    except RuntimeError as error:
        raise InputError(f"timm has no encoder {name.removeprefix('timm:')!r}: see timm.list_models()") from error
    return network, int(network.num_features)  # type: ignore[arg-type]
