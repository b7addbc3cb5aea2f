"""Views of images from Stable unCLIP, a pretrained diffusion model conditioned on the CLIP embedding of an image.

GenView (Li et al. 2024, equations 5 and 9): ``x+ = G(z_T, noisy(c, l), w)`` with the CLIP embedding c, the noise level
l and an empty prompt w. The pipeline is that of diffusers (extra ``unclip``), extended to batches in which every image
has its own noise level and random stream.
"""

import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.errors import InputError, check, require
from viewsmith.core.rows import RowSource
from viewsmith.core.samples import take_rows
from viewsmith.losses.quality import map_pools, pair_quality
from viewsmith.methods.genview.clip import clip_features, is_local_folder
from viewsmith.modalities import Images
from viewsmith.views.base import randn
from viewsmith.views.generated.noise_level import foreground_fractions

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
