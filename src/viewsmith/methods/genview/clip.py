"""CLIP's vision models (ViT, ConvNeXt) of transformers as features of images, from files of OpenCLIP, too; and views of
images from Stable unCLIP, a pretrained diffusion model conditioned on the CLIP embedding of an image.

GenView (Li et al. 2024, equations 5 and 9): ``x+ = G(z_T, noisy(c, l), w)`` with the CLIP embedding c, the noise level
l and an empty prompt w. The pipeline is that of diffusers (extra ``unclip``), extended to batches in which every image
has its own noise level and random stream.
"""

import contextlib
import importlib
import inspect
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check, require
from viewsmith.core.files import read_json
from viewsmith.core.rows import RowSource
from viewsmith.core.samples import take_rows
from viewsmith.core.tensors import DamageError, load_weights, read_tensors
from viewsmith.losses.quality import map_pools, pair_quality
from viewsmith.modalities import Images
from viewsmith.views.base import randn
from viewsmith.views.generated.noise_level import foreground_fractions

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

    def __init__(
        self, model: nn.Module, mean: Sequence[float], std: Sequence[float], center: Tensor, scale: Tensor
    ) -> None:
        super().__init__()
        config: Any = model.config
        self.model, self.size = model, int(config.image_size)
        self.convolutional = config.model_type == "convnext"
        self.mean, self.std = list(mean), list(std)
        self.center = nn.Buffer(center.detach().clone()[:, None, None])
        self.scale = nn.Buffer(scale.detach().clone()[:, None, None])

    def forward(self, x: Tensor) -> Tensor:
        size = self.size, self.size
        pixels = (x.float() * self.scale + self.center).clamp(0, 1).expand(-1, 3, -1, -1)
        if self.convolutional:
            return self.model(_normalized(pixels, size, self.mean, self.std)).last_hidden_state
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
                network = load_convnext(transformers, find, convnext)
                return ClipMaps(network, convnext["mean"], convnext["std"], center, scale)
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


SCHEDULERS = {
    "ddim": "DDIMScheduler",
    "ddpm": "DDPMScheduler",
    "dpm": "DPMSolverMultistepScheduler",
    "pndm": "PNDMScheduler",
    "euler": "EulerDiscreteScheduler",
}

STEPS, GUIDANCE = 20, 10.0
BLOCK = 16  # images passed to CLIP at a time
GRAY = (0.299, 0.587, 0.114)


class StableUnCLIP:
    """Stable unCLIP as a generator of views: from uint8 images to uint8 images of the same size.

    Parameters
    ----------
    pipeline : diffusers.StableUnCLIPImg2ImgPipeline
    steps : int
        Steps of the sampler; 20 for the published views.
    guidance : float
        g in ``unconditional + g (conditional - unconditional)``; 10 for the published views. 1 means no guidance and
        half the work.
    scheduler : {"ddim", "ddpm", "dpm", "pndm", "euler"}, optional
        Sampler. Default: that of the checkpoint.
    size : int, optional
        Side of the generated images in pixels, before they are resized to the size of the sources; a multiple of 8, or
        of more for deeper autoencoders. Default: the size of the checkpoint.

    Raises
    ------
    InputError
        A setting is out of range.
    """

    name = "unclip"

    def __init__(
        self,
        pipeline: Any,
        *,
        steps: int = STEPS,
        guidance: float = GUIDANCE,
        scheduler: str | None = None,
        size: int | None = None,
    ) -> None:
        check(steps >= 1, "steps", steps, "at least 1")
        check(guidance >= 1, "guidance", guidance, "a number of at least 1 (1: no guidance)")
        self.factor = 2 ** (len(pipeline.vae.config.block_out_channels) - 1)
        size = pipeline.unet.config.sample_size * self.factor if size is None else size
        if size < self.factor or size % self.factor:
            raise InputError(f"the size of generated images is {size}, expected a multiple of {self.factor}")
        self.pipeline, self.steps, self.guidance, self.size = pipeline, steps, guidance, size
        self.origin = ""
        self.scheduler = pipeline.scheduler if scheduler is None else _scheduler(scheduler, pipeline.scheduler)
        self._prompt: Tensor | None = None
        self._last_embedding: tuple[Tensor, Tensor] | None = None

    @classmethod
    def load(cls, where: str, *, device: torch.device | str = "cpu", **settings: Any) -> "StableUnCLIP":
        """Load the generator from a folder, or download it from the Hugging Face Hub.

        Parameters
        ----------
        where : str
            Folder in the layout of diffusers with safetensors, or OWNER/NAME on the hub.
        device : torch.device or str
            On a GPU the weights are in float16, as published.
        **settings
            Arguments of the class.

        Raises
        ------
        InputError
            There are no such weights.
        MissingExtra
            diffusers or transformers (extra ``unclip``) is not installed.
        """
        for package in ("diffusers", "transformers"):
            require(package, "unclip", "the generator 'unclip'")
        diffusers: Any = importlib.import_module("diffusers")
        local = is_local_folder(where, "weights of Stable unCLIP", "diffusers")
        device = torch.device(device)
        try:
            pipeline = diffusers.StableUnCLIPImg2ImgPipeline.from_pretrained(
                where,
                local_files_only=local,
                use_safetensors=True,
                torch_dtype=torch.float16 if device.type == "cuda" else torch.float32,
            )
        except Exception as error:
            detail = " ".join(str(error).split())[:200]
            raise InputError(
                f"cannot load Stable unCLIP from {where!r} ({detail}): give its complete folder"
            ) from error
        generator = cls(pipeline.to(device), **settings)
        generator.origin = where
        return generator

    @property
    def device(self) -> torch.device:
        return next(self.pipeline.unet.parameters()).device

    @property
    def dtype(self) -> torch.dtype:
        return next(self.pipeline.unet.parameters()).dtype

    def describe(self) -> dict[str, Any]:
        """Description of the generator, for the manifest of a view cache."""
        return {
            "name": self.name,
            "weights": self.origin,
            "version": importlib.import_module("diffusers").__version__,
            "scheduler": type(self.scheduler).__name__,
            "steps": self.steps,
            "guidance": self.guidance,
            "size": self.size,
        }

    @torch.no_grad()
    def encode_images(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """CLIP embeddings (B, E) and maps (B, h, w, D) of uint8 images (B, H, W[, C]), in one pass."""
        settings = self.pipeline.feature_extractor
        crop = settings.crop_size
        size = (crop, crop) if isinstance(crop, int) else (crop["height"], crop["width"])
        pixels = _color(rows).to(self.device)
        output, maps = clip_features(self.pipeline.image_encoder, pixels, size, settings.image_mean, settings.image_std)
        return output.image_embeds, maps

    @torch.no_grad()
    def noisy_condition(self, embedding: Tensor, level: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
        """The denoiser's condition, (B, 2 E), at the levels l: ``sqrt(abar_l) c + sqrt(1 - abar_l) e`` and that of l.

        Noise, from one stream per image, is added to the normalized embedding c, with a schedule of its own.
        """
        normalizer, schedule = self.pipeline.image_normalizer, self.pipeline.image_noising_scheduler
        level = level.to(self.device)
        mean, std = (each.to(embedding) for each in (normalizer.mean, normalizer.std))
        noise = randn(embedding, streams)
        noised = schedule.add_noise((embedding - mean) / std, noise, level) * std + mean
        timestep_embedding = importlib.import_module("diffusers.models.embeddings").get_timestep_embedding
        level_embedding = timestep_embedding(level, embedding.shape[1], flip_sin_to_cos=True, downscale_freq_shift=0)
        return torch.cat([noised, level_embedding.to(noised)], dim=1)

    def noise_tolerance(self, rows: Tensor | RowSource, min_max: bool = False) -> tuple[Tensor, Tensor]:
        """Foreground fraction of each of n images, float64 (n,), from the patches of CLIP; and the axis, (D,)."""

        def patches(index: Tensor) -> Tensor:
            return self.encode_images(take_rows(rows, index))[1].float()

        return foreground_fractions(patches, len(rows), block=BLOCK, min_max=min_max)

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        """Quality q of images and a view of each, float32 (B,), from the patches of CLIP and their foreground axis."""
        pools = (map_pools(self.encode_images(each)[1].float(), axis.to(self.device)) for each in (rows, views))
        return pair_quality(*pools).cpu()

    @torch.no_grad()
    def generate(
        self, rows: Tensor, index: Tensor | None, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        """Generate a view of each uint8 image (B, H, W[, C]), like these. The same tensor is encoded only once.

        Parameters
        ----------
        level : int64 Tensor, shape (B,)
            Noise level of each image's condition, 0 to 999.
        streams : sequence of torch.Generator
            One per image, on the device of the weights. It draws the noise of the condition, then that of the image.
        index, view
            Not used: a view depends on its image, level and stream.
        """
        if self._last_embedding is None or self._last_embedding[0] is not rows:
            self._last_embedding = rows, self.encode_images(rows)[0]
        embedding = self._last_embedding[1]
        condition = self.noisy_condition(embedding.to(self.dtype), level, streams)
        latents = self.latents(condition, streams)
        pixels = self.pipeline.vae.decode(latents / self.pipeline.vae.config.scaling_factor, return_dict=False)[0]
        return _to_images(((pixels.float() + 1) / 2).clamp(0, 1), rows)

    @torch.no_grad()
    def latents(self, condition: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
        """Latent images (B, c, h, w) for conditions (B, 2 E), by the reverse diffusion of the scheduler."""
        unet, scheduler, guided = self.pipeline.unet, self.scheduler, self.guidance > 1
        prompt = self._empty_prompt().expand(len(condition) * (2 if guided else 1), -1, -1)
        if guided:
            condition = torch.cat([torch.zeros_like(condition), condition])
        scheduler.set_timesteps(self.steps, device=self.device)
        side = self.size // self.factor
        shape = (len(streams), unet.config.in_channels, side, side)
        x = randn(torch.empty(shape, device=self.device, dtype=self.dtype), streams) * scheduler.init_noise_sigma
        extra = {"generator": list(streams)} if "generator" in inspect.signature(scheduler.step).parameters else {}
        for t in scheduler.timesteps:
            given = scheduler.scale_model_input(torch.cat([x, x]) if guided else x, t)
            output = unet(given, t, encoder_hidden_states=prompt, class_labels=condition, return_dict=False)[0]
            if guided:
                unconditional, conditional = output.chunk(2)
                output = unconditional + self.guidance * (conditional - unconditional)
            x = scheduler.step(output, t, x, **extra, return_dict=False)[0]
        return x

    def _empty_prompt(self) -> Tensor:
        """Embedding of the empty prompt, (1, tokens, width), computed once."""
        if self._prompt is None:
            self._prompt = self.pipeline.encode_prompt("", self.device, 1, False)[0]
        return self._prompt


def _scheduler(name: str, present: Any) -> Any:
    check(name in SCHEDULERS, "the scheduler", repr(name), f"one of {', '.join(SCHEDULERS)}")
    # As in Stable Diffusion, without the initial Runge-Kutta steps, which need more network evaluations.
    extra = {"skip_prk_steps": True} if name == "pndm" else {}
    return getattr(importlib.import_module("diffusers"), SCHEDULERS[name]).from_config(present.config, **extra)


def _color(rows: Tensor) -> Tensor:
    """Pixels from 0 to 1, (B, 3, H, W), of uint8 images (B, H, W) or (B, H, W, C)."""
    x = rows[:, None] if rows.ndim == 3 else rows.movedim(3, 1)
    return Images.samples.to_unit(x).expand(-1, 3, -1, -1)


def _to_images(x: Tensor, rows: Tensor) -> Tensor:
    """uint8 images with the shape of `rows` from pixels from 0 to 1, (B, 3, h, w)."""
    height, width = rows.shape[1:3]
    x = F.interpolate(x, (height, width), mode="bicubic", antialias=True, align_corners=False)
    if rows.ndim == 3 or rows.shape[3] == 1:
        x = (x * torch.tensor(GRAY, device=x.device)[:, None, None]).sum(1, keepdim=True)
    x = Images.samples.from_unit(x).to(rows.device)
    return x[:, 0] if rows.ndim == 3 else x.movedim(1, 3)
