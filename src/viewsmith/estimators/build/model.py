"""From settings to parts: encoders, frameworks, view makers, generators of noise."""

from __future__ import annotations

import copy
from pathlib import Path
from types import SimpleNamespace
from typing import Any, Literal

from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.method import Optimizer
from viewsmith.estimators.build.resolve import CHANNEL, timm_encoder, view_names
from viewsmith.frameworks import (
    BYOL,
    DINO,
    Framework,
    MoCo,
    MoCoV3,
    SimCLR,
    SimSiam,
    SwAV,
    byol,
    dino,
    moco,
    moco_v3,
    simsiam,
    swav,
)
from viewsmith.networks.alexnet import SplitAlexNet
from viewsmith.networks.cnn import CropCNN, SmallCNN
from viewsmith.networks.hyena import Hyena
from viewsmith.networks.mlp import MLP
from viewsmith.networks.noise_maps import LowResolutionMap, ResNetMap, SequenceMap, SharedTrunkMap, UNet
from viewsmith.networks.inputs.nucleotides import kmer_frequencies
from viewsmith.networks.resnet import resnet18, resnet50
from viewsmith.networks.inputs.scaling import PrincipalAxes
from viewsmith.networks.sequence import SequenceCNN
from viewsmith.core.tensors import load_tensors, load_weights
from viewsmith.views.fixed import dna
from viewsmith.views.fixed.adversarial import AdversarialViews
from viewsmith.views.fixed.conditional import ConditionalCorruption
from viewsmith.views.fixed.images import image_recipe
from viewsmith.views.fixed.representation import RepresentationNoise
from viewsmith.views.fixed.vectors import Corruption, GaussianNoise, Identity, Mixup, NeighborMix, Neighbors, Space
from viewsmith.views.base import ViewMaker
from viewsmith.views.neighbors import PrincipalSpace
from viewsmith.views.pair import ViewPair
from viewsmith.views.learned.pi_noise import PiNoise


def make_model(settings: SimpleNamespace) -> tuple[Framework, ViewPair]:
    """Encoder, head and framework, and the fixed view makers."""
    encoder = make_encoder(settings)
    return make_framework(settings, encoder), make_views(settings, encoder)


# ---- encoders -------------------------------------------------------------------------------------------------------


def make_encoder(settings: SimpleNamespace) -> nn.Module:
    """The encoder that `settings.encoder` names, its weights fresh or from a file; of the user's module, a copy.

    Raises
    ------
    InputError
        The file of weights cannot be read or is not of this encoder.
    """
    encoder = _named_encoder(settings)
    if settings.weights is not None:
        if isinstance(encoder, Hyena):
            encoder.load_published(settings.weights)
        else:
            _start_from(Path(settings.weights), encoder, settings.encoder)
    return encoder


def _start_from(path: Path, encoder: nn.Module, name: str) -> None:
    """Take the weights of a safetensors file."""
    if not path.is_file():
        raise InputError(f"no weights at {path} (encoder_weights): expected weights of the encoder {name}, safetensors")
    try:
        # Published ResNets come with their classifier.
        kept = {key: value for key, value in load_tensors(path).items() if not key.startswith("fc.")}
    except InputError as error:
        raise InputError(
            f"{path} (encoder_weights) is damaged or no safetensors file: pickled weights are never read, write them "
            "with safetensors.torch.save_file(encoder.state_dict(), path)"
        ) from error
    load_weights(encoder, kept, f"{path} (encoder_weights)", f"the encoder {name}")


def _named_encoder(settings: SimpleNamespace) -> nn.Module:
    name, width = settings.encoder, settings.n_components
    if isinstance(settings.module, nn.Module):
        return copy.deepcopy(settings.module)
    if name.startswith("module:"):
        raise InputError(
            f"the encoder of this model is the user's own ({name.removeprefix('module:')}): give it, as in "
            "viewsmith.load(run, encoder=module)"
        )
    if settings.domain == "vectors":
        d, k = settings.row_shape[0], settings.input_components
        layers: list[nn.Module] = [PrincipalAxes(d, k)] if k else []
        last: Literal["activated", "linear"] = "activated" if settings.norm == "batch" else "linear"
        return nn.Sequential(*layers, MLP(k or d, [*settings.hidden, width], norm=settings.norm, last=last))
    if settings.domain == "dna":
        return Hyena() if name == "hyena" else SequenceCNN(n_components=width)
    channels = channels_of(settings)
    if name.startswith("timm:"):
        return timm_encoder(name, channels)[0]
    if name == "cnn":
        return SmallCNN(channels, n_components=width)
    if name == "crl-cnn":
        # CRL-TAC's other way to an empty crop that says nothing (`CRLTACMethod`).
        return CropCNN(channels, width, bias=getattr(settings, "centered", True))
    if name == "split-alexnet":
        return SplitAlexNet(channels, width, stem=_stem(settings))
    return (resnet18 if name == "resnet18" else resnet50)(channels, stem=_stem(settings))


def _stem(settings: SimpleNamespace) -> Literal["small", "standard"]:
    small = settings.stem == "small" or (settings.stem == "auto" and max(settings.row_shape[:2]) <= 64)
    return "small" if small else "standard"


def channels_of(settings: SimpleNamespace) -> int:
    if settings.domain == "dna":
        return 4
    return 1 if len(settings.row_shape) == 2 else int(settings.row_shape[2])


# ---- frameworks -----------------------------------------------------------------------------------------------------


def make_framework(settings: SimpleNamespace, encoder: nn.Module) -> Framework:
    """The framework of `settings.framework` with its heads."""
    kind, n = settings.framework, settings.n_components
    given = {} if settings.momentum == "auto" else {"momentum": settings.momentum}
    temperature = settings.temperature
    if kind == "simclr":
        cauchy = settings.kernel == "cauchy"
        # The neighbor recipe contrasts samples with second views alone: faster, and better for it (docs, contrastive).
        negatives: Literal["all", "cross"] = "cross" if cauchy else "all"
        head = noisy(settings, MLP(n, _simclr_widths(settings)))
        return SimCLR(encoder, head, temperature=temperature, kernel=settings.kernel, negatives=negatives)
    if kind == "moco":
        head = noisy(settings, moco.projector(n, **_widths(settings, "projection")))
        return MoCo(encoder, head, queue=settings.queue_size, temperature=temperature, **given)
    if kind == "swav":
        head = noisy(settings, swav.projector(n, **_widths(settings, "projection")))
        return SwAV(encoder, head, temperature=temperature, **_prototypes(settings))
    if kind == "dino":
        head = noisy(settings, dino.projector(n, **_widths(settings, "projection"), norm="none"))
        return DINO(encoder, head, temperature=temperature, **given, **_prototypes(settings))
    module: Any = {"moco-v3": moco_v3, "byol": byol, "simsiam": simsiam}[kind]
    projector = module.projector(n, **_widths(settings, "projection"))
    predictor = module.predictor(projector.n_components, **_widths(settings, "prediction"))
    head = noisy(settings, projector)
    if kind == "moco-v3":
        return MoCoV3(encoder, head, predictor, temperature=temperature, **given)
    return BYOL(encoder, head, predictor, **given) if kind == "byol" else SimSiam(encoder, head, predictor)


def _simclr_widths(settings: SimpleNamespace) -> tuple[int, ...]:
    if settings.projection != "auto":
        return tuple(settings.projection)
    return (32,) if settings.kernel == "cauchy" or settings.domain == "vectors" else (settings.n_components, 128)


def _widths(settings: SimpleNamespace, name: str) -> dict[str, int]:
    """Head widths as keywords: what was asked for; "auto" leaves a ResNet the published ones, others have less."""
    given = getattr(settings, name)
    expected = 2 if name == "projection" else 1
    if given == "auto":
        if settings.encoder.startswith("resnet"):
            return {}
        small = {"swav": (512, 128), "moco": (512, 128), "simsiam": (512, 512)}.get(settings.framework, (512, 256))
        given = small if name == "projection" else (128,) if settings.framework == "simsiam" else (512,)
    if len(given) != expected:
        shape = "(hidden, output)" if name == "projection" else "(hidden,)"
        raise InputError(f"{name} is {tuple(given)}, expected {shape} with the framework {settings.framework!r}")
    return dict(zip(("hidden", "out"), given, strict=False))


def _prototypes(settings: SimpleNamespace) -> dict[str, int]:
    if settings.prototypes != "auto":
        return {"prototypes": settings.prototypes}
    return (
        {} if settings.encoder.startswith("resnet") else {"prototypes": 300 if settings.framework == "swav" else 1024}
    )


def noisy(settings: SimpleNamespace, head: MLP) -> nn.Module:
    """The head, with noise on its input during training where asked for."""
    if not settings.representation_noise:
        return head
    noisy = nn.Sequential(RepresentationNoise(settings.representation_noise), head)
    noisy.n_components = head.n_components  # type: ignore[assignment]
    return noisy


def make_optimizer(settings: SimpleNamespace) -> Optimizer:
    return Optimizer(
        name=settings.optimizer,
        learning_rate=settings.learning_rate,
        weight_decay=settings.weight_decay,
        warmup=settings.warmup,
        schedule=settings.schedule,
        clip=settings.gradient_clip,
    )


# ---- view makers ----------------------------------------------------------------------------------------------------


def make_views(settings: SimpleNamespace, encoder: nn.Module) -> ViewPair:
    """The view makers that `settings.view_maker` names, in order."""
    makers = [_view_maker(name, settings, encoder) for name in view_names(settings.view_maker, settings.domain)]
    return ViewPair(makers, encoder=encoder if settings.neighbor_space == "encoder" else None)


def _view_maker(name: str, settings: SimpleNamespace, encoder: nn.Module) -> ViewMaker:
    if settings.domain == "images" and name in ("simclr", "byol", "moco", "multicrop"):
        return _image_recipe(name, settings)
    if settings.domain == "dna" and (special := _dna_maker(name, settings)) is not None:
        return special
    if name == "grid-crop" or name.startswith(CHANNEL):
        from viewsmith.estimators.build.channels import trained_channel, uniform_crops

        return uniform_crops(settings) if name == "grid-crop" else trained_channel(settings)
    refreshed = settings.neighbor_space == "encoder"
    if name == "noise":
        return GaussianNoise(settings.noise_strength, settings.noise_distribution)
    if name == "corruption":
        return Corruption(settings.corruption_rate)
    if name == "mixup":
        return Mixup(settings.mixup_minimum)
    if name == "neighbor-mix":
        return NeighborMix(settings.n_neighbors, settings.neighbor_mix_minimum, _space(settings, encoder), refreshed)
    if name == "neighbors":
        return Neighbors(settings.n_neighbors, _space(settings, encoder), refreshed)
    if name == "adversarial":
        return AdversarialViews(settings.adversarial_strength)
    if name == "conditional":
        return ConditionalCorruption(settings.row_shape[0], settings.corruption_rate)
    return Identity()


def _image_recipe(name: Any, settings: SimpleNamespace) -> ViewMaker:
    crops: dict[str, Any] = {} if settings.crop_minimum == "auto" else {"scale": (settings.crop_minimum, 1.0)}
    return image_recipe(
        name,
        size=tuple(settings.row_shape[:2]),
        strength=settings.color_strength,
        flip=settings.flip,
        crops=settings.local_crops,
        mean=settings.pixel_mean,
        std=settings.pixel_scale,
        **crops,
    )


def _dna_maker(name: str, settings: SimpleNamespace) -> ViewMaker | None:
    """The makers that know letters and ends of sequences; None: one that serves all domains."""
    if name == "dna":
        edits = [dna.Deletion(), dna.Insertion(), dna.Translocation(), dna.Mutation(settings.mutation_rate)]
        return dna.DNAViews(edits, most=settings.max_edits)
    if name == "mutation":
        return dna.Mutation(settings.mutation_rate)
    if name == "noise":
        return dna.DNANoise(settings.noise_strength)
    if name == "mixup":
        return dna.DNAMixup(settings.mixup_minimum)
    return dna.DNA_VIEWS[name]() if name in dna.DNA_VIEWS else None


def _space(settings: SimpleNamespace, encoder: nn.Module) -> Space | None:
    """Where neighbors are sought: where the encoder of vectors looks first; in principal axes of pixels or words."""
    if settings.domain == "images":
        return PrincipalSpace(_flat)
    if settings.domain == "dna":
        return PrincipalSpace(kmer_frequencies)
    # Held as a bound method: the projection belongs to the encoder alone.
    first = encoder[0] if isinstance(encoder, nn.Sequential) else None
    return first.forward if isinstance(first, PrincipalAxes) else None


def _flat(x: Tensor) -> Tensor:
    return x.flatten(1)


# ---- learned noise


def make_noise(settings: SimpleNamespace, encoder: nn.Module) -> PiNoise:
    """The generator of PiNDA's noise, with the network that `settings.generator` names."""
    options = {
        "distribution": settings.distribution,
        "learn_mean": settings.learn_mean,
        "strength": settings.strength,
        "level": settings.level,
        "random_fraction": settings.random_fraction,
        "adversarial": settings.objective == "adversarial",
    }
    if settings.domain == "vectors":
        return PiNoise.for_vectors(settings.row_shape[0], hidden=settings.generator_hidden, **options)
    channels = channels_of(settings)
    outputs = channels * (2 if settings.learn_mean else 1)
    if settings.generator == "shared":
        trunk: Any = encoder
        dims = 1 if settings.domain == "dna" else 2
        network: nn.Module = SharedTrunkMap(trunk.stem, trunk.stem_width, outputs, dims=dims)
    elif settings.domain == "dna":
        network = SequenceMap(outputs)
    else:
        kinds = {"low-resolution": LowResolutionMap, "unet": UNet}
        if settings.generator == "resnet18":
            network = ResNetMap(channels, outputs, stem=_stem(settings))
        else:
            network = kinds[settings.generator](channels, outputs)
    return PiNoise(network, **options)
