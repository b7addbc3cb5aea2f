"""CLIP's vision models (ViT, ConvNeXt) of transformers as features of images, from files of OpenCLIP, too."""

import contextlib
import importlib
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, require
from viewsmith.core.files import read_json
from viewsmith.core.tensors import DamageError, load_weights, read_tensors

SIZE = 224  # side of the images in pixels: GenView measures quality on 7 x 7 patches
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP's colors

#: Configuration and weights, in OpenCLIP's and in timm's layout.
LAYOUTS = (("open_clip_config.json", "open_clip_model.safetensors"), ("config.json", "model.safetensors"))
OPEN_CLIP = "visual.trunk."

#: Maps the name of a file of the model to its path, or None if there is none.
FindFile = Callable[[str], Path | None]


#: From names of weights in these layouts to those of transformers.
RENAMED = (
    (r"^stem\.0\.", "embeddings.patch_embeddings."),
    (r"^stem\.1\.", "embeddings.layernorm."),
    (r"^stages\.", "encoder.stages."),
    (r"\.downsample\.", ".downsampling_layer."),
    (r"\.blocks\.", ".layers."),
    (r"\.conv_dw\.", ".dwconv."),
    (r"\.norm\.", ".layernorm."),
    (r"\.mlp\.fc", ".pwconv"),
    (r"\.gamma$", ".layer_scale_parameter"),
)


def find_convnext(find: FindFile) -> dict[str, Any] | None:
    """Find the configuration of a ConvNeXt in the layout of OpenCLIP or timm."""
    for config, weights in LAYOUTS:
        path = find(config)
        if path is None:
            continue
        content = read_json(path)
        vision = content.get("model_cfg", {}).get("vision_cfg", {})
        name = str(vision.get("timm_model_name") or content.get("architecture", ""))
        if name.startswith("convnext"):
            colors = content.get("preprocess_cfg") or content.get("pretrained_cfg") or {}
            return {"weights": weights, "mean": colors.get("mean", MEAN), "std": colors.get("std", STD)}
    return None


def load_convnext(transformers: Any, find: FindFile, config: Mapping[str, Any]) -> nn.Module:
    """Load a ConvNeXt without its head; the shapes of its weights determine its widths and depths."""
    path = find(config["weights"])
    if path is None:
        raise InputError(f"the file {config['weights']} is missing")
    try:
        tensors = read_tensors(path)
    except DamageError as error:
        raise InputError(f"{config['weights']} is damaged: {error}") from error
    if any(name.startswith(OPEN_CLIP) for name in tensors):
        tensors = {n.removeprefix(OPEN_CLIP): t for n, t in tensors.items() if n.startswith(OPEN_CLIP)}
    tensors = {name: value for name, value in tensors.items() if name.startswith(("stem.", "stages."))}
    found: dict[int, tuple[int, int]] = {}
    for name, value in tensors.items():
        if block := re.fullmatch(r"stages\.(\d+)\.blocks\.(\d+)\.gamma", name):
            stage, depth = int(block[1]), int(block[2]) + 1
            found[stage] = (len(value), max(depth, found.get(stage, (0, 0))[1]))
    if not found or sorted(found) != list(range(len(found))):
        raise InputError(f"{config['weights']} has no stages of a ConvNeXt")
    widths, depths = zip(*(found[stage] for stage in sorted(found)), strict=True)
    sizes = transformers.ConvNextConfig(hidden_sizes=widths, depths=depths, num_stages=len(widths), image_size=SIZE)
    network: nn.Module = transformers.ConvNextModel(sizes)
    network.layernorm = nn.Identity()  # of the pooled output
    for pattern, name in RENAMED:
        tensors = {re.sub(pattern, name, given): value for given, value in tensors.items()}
    load_weights(network, tensors, config["weights"], "a ConvNeXt")
    return network


KINDS = ("clip_vision_model", "clip")  # model_type in config.json: the vision model alone, or with the text model
STATISTICS = ("image_mean", "image_std")


class ClipMaps(nn.Module):
    """Scaled images (B, C, H, W) to the features of their patches, (B, D, h, w), after the last norm.

    Images are converted back to pixels (gray images to three channels), resized and cropped to the size of the model,
    and normalized as in its training.
    """

    center: Tensor
    scale: Tensor

    def __init__(
        self, model: nn.Module, mean: Sequence[float], std: Sequence[float], center: Tensor, scale: Tensor
    ) -> None:
        super().__init__()
        config: Any = model.config
        self.model, self.size = model, int(config.image_size)
        self.convolutional = config.model_type == "convnext"
        self.mean, self.std = list(mean), list(std)
        self.register_buffer("center", center.detach().clone()[:, None, None])
        self.register_buffer("scale", scale.detach().clone()[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        size = self.size, self.size
        pixels = (x.float() * self.scale + self.center).clamp(0, 1).expand(-1, 3, -1, -1)
        if self.convolutional:
            found: Tensor = self.model(_normalized(pixels, size, self.mean, self.std)).last_hidden_state
            return found
        _, maps = clip_features(self.model, pixels, size, self.mean, self.std)
        return maps.movedim(3, 1)


def clip_features(
    model: Any, pixels: Tensor, size: tuple[int, int], mean: Sequence[float], std: Sequence[float]
) -> tuple[Any, Tensor]:
    """Output and feature maps of CLIP for images."""
    output = model(_normalized(pixels, size, mean, std).to(next(model.parameters()).dtype))
    patches = getattr(model, "vision_model", model).post_layernorm(output.last_hidden_state[:, 1:])
    patch = model.config.patch_size
    return output, patches.unflatten(1, (size[0] // patch, size[1] // patch))


def load_clip(where: str, center: Tensor, scale: Tensor) -> ClipMaps:
    """Load CLIP's vision model from a folder, or download it from the Hugging Face Hub.

    The model is in the layout of transformers (weights as safetensors, with the settings of the image processor), or a
    ConvNeXt in that of OpenCLIP or timm.
    """
    require("transformers", "unclip", "features of CLIP")
    transformers: Any = importlib.import_module("transformers")
    local = is_local_folder(where, "CLIP", "transformers")
    processors: Any = importlib.import_module("transformers.image_processing_base")
    try:
        with _quiet(transformers, local):
            find = partial(_find_file, transformers, where, local)
            if (convnext := find_convnext(find)) is not None:
                return ClipMaps(
                    load_convnext(transformers, find, convnext), convnext["mean"], convnext["std"], center, scale
                )
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
        detail = " ".join(str(error).split())
        detail = detail[:200] if isinstance(error, InputError | OSError) else f"{type(error).__name__}: {detail[:160]}"
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


def is_local_folder(where: str, source_name: str, layout: str) -> bool:
    """Whether `where` is a folder (True) or the name of a model on the Hugging Face Hub (False)."""
    local = Path(where).is_dir()
    if not local and (where.count("/") != 1 or Path(where).exists() or where.startswith(("/", "."))):
        raise InputError(
            f"no {source_name} at {where!r}: expected a folder in the layout of {layout}, or OWNER/NAME on the hub"
        )
    return local


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
    """Pixels resized (antialiased) to the longer side of `size`, cropped in the middle, with normalized colors."""
    side, (height, width) = max(size), pixels.shape[2:]
    scale = side / min(height, width)
    large = max(side, int(height * scale)), max(side, int(width * scale))
    pixels = F.interpolate(pixels, large, mode="bicubic", antialias=True, align_corners=False).clamp(0, 1)
    top, left = (large[0] - size[0]) // 2, (large[1] - size[1]) // 2
    center, spread = (torch.tensor(values, device=pixels.device)[:, None, None] for values in (mean, std))
    return (pixels[:, :, top : top + size[0], left : left + size[1]] - center) / spread
