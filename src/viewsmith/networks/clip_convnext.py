"""The ConvNeXt of a CLIP model from OpenCLIP or timm, as a feature extractor; it does not need these libraries."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.tensors import DamageError, load_weights, read_tensors

SIZE = 224  # side of the images in pixels: GenView measures quality on 7 x 7 patches
MEAN, STD = (0.48145466, 0.4578275, 0.40821073), (0.26862954, 0.26130258, 0.27577711)  # CLIP's colors
#: Configuration and weights, in OpenCLIP's and in timm's layout.
LAYOUTS = (("open_clip_config.json", "open_clip_model.safetensors"), ("config.json", "model.safetensors"))
OPEN_CLIP = "visual.trunk."

#: Maps the name of a file of the model to its path, or None if there is none.
FindFile = Callable[[str], Path | None]


class ConvNeXt(nn.Module):
    """ConvNeXt (Liu et al. 2022, A ConvNet for the 2020s) without its head: images (B, 3, H, W) to maps (B, D, h, w).

    Its parameters have the names of timm, which OpenCLIP uses, too.

    Parameters
    ----------
    widths, depths : sequence of int
        Channels and blocks of each stage. A stage has half the resolution of the one before, the first one a quarter
        of that of the image.
    """

    def __init__(self, widths: Sequence[int], depths: Sequence[int]) -> None:
        super().__init__()
        self.stem = nn.Sequential(nn.Conv2d(3, widths[0], 4, 4), _ChannelNorm(widths[0]))
        before = [widths[0], *widths[:-1]]
        self.stages = nn.Sequential(*map(_Stage, before, widths, depths))

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.stages(self.stem(x))
        return maps


class _Stage(nn.Module):
    def __init__(self, before: int, width: int, depth: int) -> None:
        super().__init__()
        shrinks = before != width
        self.downsample = nn.Sequential(_ChannelNorm(before), nn.Conv2d(before, width, 2, 2)) if shrinks else None
        self.blocks = nn.Sequential(*(_Block(width) for _ in range(depth)))

    def forward(self, x: Tensor) -> Tensor:
        maps: Tensor = self.blocks(x if self.downsample is None else self.downsample(x))
        return maps


class _Block(nn.Module):
    def __init__(self, width: int) -> None:
        super().__init__()
        self.conv_dw = nn.Conv2d(width, width, 7, 1, 3, groups=width)
        self.norm = nn.LayerNorm(width, eps=1e-6)
        self.mlp = nn.ModuleDict({"fc1": nn.Linear(width, 4 * width), "fc2": nn.Linear(4 * width, width)})
        self.gamma = nn.Parameter(torch.ones(width))

    def forward(self, x: Tensor) -> Tensor:
        h = self.norm(self.conv_dw(x).movedim(1, 3))
        h = self.gamma * self.mlp["fc2"](F.gelu(self.mlp["fc1"](h)))
        return x + h.movedim(3, 1)


class _ChannelNorm(nn.LayerNorm):
    """LayerNorm over the channels of maps (B, C, H, W)."""

    def __init__(self, width: int) -> None:
        super().__init__(width, eps=1e-6)

    def forward(self, x: Tensor) -> Tensor:
        return super().forward(x.movedim(1, 3)).movedim(3, 1)


def find_convnext(find: FindFile) -> dict[str, Any] | None:
    """Find the configuration of a ConvNeXt in the layout of OpenCLIP or timm.

    Returns
    -------
    dict or None
        ``weights``, the name of the file with the weights, and ``mean`` and ``std``, the normalization of the colors.
        None if the model is not a ConvNeXt.
    """
    for config, weights in LAYOUTS:
        path = find(config)
        if path is None:
            continue
        content = json.loads(path.read_text(encoding="utf-8"))
        vision = content.get("model_cfg", {}).get("vision_cfg", {})
        name = str(vision.get("timm_model_name") or content.get("architecture", ""))
        if name.startswith("convnext"):
            colors = content.get("preprocess_cfg") or content.get("pretrained_cfg") or {}
            return {"weights": weights, "mean": colors.get("mean", MEAN), "std": colors.get("std", STD)}
    return None


def load_convnext(find: FindFile, config: Mapping[str, Any]) -> ConvNeXt:
    """Load a ConvNeXt; the shapes of its weights determine its widths and depths.

    Parameters
    ----------
    find : callable
        Maps the name of a file of the model to its path.
    config : mapping
        From `find_convnext`.

    Raises
    ------
    InputError
        The weights are missing or damaged, or are not those of a ConvNeXt.
    """
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
    network = ConvNeXt(widths, depths)
    load_weights(network, tensors, config["weights"], "a ConvNeXt")
    return network
