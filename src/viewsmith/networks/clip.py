"""CLIP's vision models (ViT of transformers, ConvNeXt of OpenCLIP) as feature extractors for images."""

from __future__ import annotations

import contextlib
import importlib
from collections.abc import Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.networks.clip_convnext import SIZE, ConvNeXt, find_convnext, load_convnext

KINDS = ("clip_vision_model", "clip")  # model_type in config.json: the vision model alone, or with the text model
STATISTICS = ("image_mean", "image_std")


class ClipMaps(nn.Module):
    """Scaled images (B, C, H, W) to the features of their patches, (B, D, h, w), after the last norm.

    Images are converted back to pixels (gray images to three channels), resized and cropped to the size of the model,
    and normalized as in its training.

    Parameters
    ----------
    model : transformers.CLIPVisionModel, CLIPVisionModelWithProjection, or ConvNeXt
        A ConvNeXt gets images of 224 x 224 pixels.
    mean, std : sequence of 3 float
        Normalization of the colors that the model was trained with.
    center, scale : Tensor, shape (C,)
        Scaling of the images: ``x * scale + center`` are pixels from 0 to 1.
    """

    center: Tensor
    scale: Tensor

    def __init__(
        self, model: nn.Module, mean: Sequence[float], std: Sequence[float], center: Tensor, scale: Tensor
    ) -> None:
        super().__init__()
        config: Any = getattr(model, "config", None)
        self.model, self.size = model, SIZE if config is None else int(config.image_size)
        self.mean, self.std = list(mean), list(std)
        self.register_buffer("center", center.detach().clone()[:, None, None])
        self.register_buffer("scale", scale.detach().clone()[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        pixels = (x.float() * self.scale + self.center).clamp(0, 1).expand(-1, 3, -1, -1)
        if isinstance(self.model, ConvNeXt):
            of_network: Tensor = self.model(_normalized(pixels, (self.size, self.size), self.mean, self.std))
            return of_network
        _, maps = clip_features(self.model, pixels, (self.size, self.size), self.mean, self.std)
        return maps.movedim(3, 1)


def clip_features(
    model: Any, pixels: Tensor, size: tuple[int, int], mean: Sequence[float], std: Sequence[float]
) -> tuple[Any, Tensor]:
    """Output and feature maps of CLIP for images.

    Parameters
    ----------
    model : transformers.CLIPVisionModel or CLIPVisionModelWithProjection
    pixels : Tensor, shape (B, 3, H, W)
        From 0 to 1.
    size : (int, int)
        Height and width to which images are resized and cropped.
    mean, std : sequence of 3 float
        Normalization of the colors.

    Returns
    -------
    output : the model's output object
    maps : Tensor, shape (B, h, w, D)
        Features of the patches after the last norm, without the class token, as published for GenView.
    """
    output = model(_normalized(pixels, size, mean, std).to(next(model.parameters()).dtype))
    patches = getattr(model, "vision_model", model).post_layernorm(output.last_hidden_state[:, 1:])
    patch = model.config.patch_size
    return output, patches.unflatten(1, (size[0] // patch, size[1] // patch))


def load_clip(where: str, center: Tensor, scale: Tensor) -> ClipMaps:
    """Load CLIP's vision model from a folder, or download it from the Hugging Face Hub.

    Parameters
    ----------
    where : str
        A folder, or OWNER/NAME on the hub. It contains a model in the layout of transformers (weights as safetensors,
        with the settings of the image processor), or a ConvNeXt in the layout of OpenCLIP or timm.
    center, scale : Tensor, shape (C,)
        As in `ClipMaps`.

    Raises
    ------
    InputError
        There is no such model, or it is incomplete.
    MissingExtra
        transformers (extra ``unclip``) is not installed.
    """
    try:
        transformers: Any = importlib.import_module("transformers")
    except ImportError as error:
        raise MissingExtra(error.name or "transformers", "unclip", "features of CLIP") from error
    local = is_local_folder(where, "CLIP", "transformers")
    processors: Any = importlib.import_module("transformers.image_processing_base")
    try:
        with _quiet(transformers, local):
            find = partial(_find_file, transformers, where, local)
            if (convnext := find_convnext(find)) is not None:
                return ClipMaps(load_convnext(find, convnext), convnext["mean"], convnext["std"], center, scale)
            settings, _ = processors.ImageProcessingMixin.get_image_processor_dict(where, local_files_only=local)
            kind = transformers.PreTrainedConfig.get_config_dict(where, local_files_only=local)[0].get("model_type")
            if kind not in KINDS:
                raise InputError(f"its model has the type {kind!r}")
            model, report = transformers.CLIPVisionModel.from_pretrained(
                where, local_files_only=local, use_safetensors=True, dtype=torch.float32, output_loading_info=True
            )
        if report["missing_keys"]:
            raise InputError(f"it lacks the weights {sorted(report['missing_keys'])[0]}")
        if not all(len(settings[name]) == 3 for name in STATISTICS):
            raise InputError("its preprocessor_config.json does not have three colors")
    except Exception as error:
        detail = " ".join(str(error).split())[:200] if isinstance(error, InputError | OSError) else _describe(error)
        raise InputError(
            f"cannot load CLIP from {where!r} ({detail}): give the complete folder of a CLIP vision model, with "
            "config.json, model.safetensors and preprocessor_config.json, or of a ConvNeXt of OpenCLIP, with "
            "open_clip_config.json and open_clip_model.safetensors"
        ) from error
    return ClipMaps(model, settings["image_mean"], settings["image_std"], center, scale)


def _find_file(transformers: Any, where: str, local: bool, name: str) -> Path | None:
    """Path of a file in a folder, or of a file downloaded from the hub; None if it does not exist."""
    if local:
        path = Path(where) / name
        return path if path.exists() else None
    found = transformers.utils.cached_file(where, name, _raise_exceptions_for_missing_entries=False)
    return None if found is None else Path(found)


def is_local_folder(where: str, what: str, layout: str) -> bool:
    """Whether `where` is a folder (True) or the name of a model on the Hugging Face Hub (False).

    Raises
    ------
    InputError
        It is neither.
    """
    local = Path(where).is_dir()
    if not local and (where.count("/") != 1 or Path(where).exists() or where.startswith(("/", "."))):
        raise InputError(
            f"no {what} at {where!r}: expected a folder in the layout of {layout}, or OWNER/NAME on the hub"
        )
    return local


def _describe(error: Exception) -> str:
    return f"{type(error).__name__}: {' '.join(str(error).split())[:160]}"


@contextlib.contextmanager
def _quiet(transformers: Any, local: bool) -> Iterator[None]:
    """Suppress the messages of transformers about unused weights; downloads keep their progress bar."""
    logs = transformers.utils.logging
    level, bar = logs.get_verbosity(), logs.is_progress_bar_enabled()
    logs.set_verbosity_error()
    if local:
        logs.disable_progress_bar()
    try:
        yield
    finally:
        logs.set_verbosity(level)
        if bar:
            logs.enable_progress_bar()


def _normalized(pixels: Tensor, size: tuple[int, int], mean: Sequence[float], std: Sequence[float]) -> Tensor:
    """Pixels resized and cropped, with normalized colors."""
    pixels = _center_crop(_resize(pixels, max(size)), *size)
    center, spread = (torch.tensor(values, device=pixels.device)[:, None, None] for values in (mean, std))
    return (pixels - center) / spread


def _resize(x: Tensor, side: int) -> Tensor:
    """Images (B, C, H, W) resized with an antialiasing filter, so that their shorter side has `side` pixels."""
    height, width = x.shape[2:]
    scale = side / min(height, width)
    size = max(side, int(height * scale)), max(side, int(width * scale))
    return F.interpolate(x, size, mode="bicubic", antialias=True, align_corners=False).clamp(0, 1)


def _center_crop(x: Tensor, height: int, width: int) -> Tensor:
    top, left = (x.shape[2] - height) // 2, (x.shape[3] - width) // 2
    return x[:, :, top : top + height, left : left + width]
