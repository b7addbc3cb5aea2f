"""Views of images by Stable unCLIP: a pretrained diffusion model told what an image shows by its CLIP embedding.

GenView (Li et al. 2024, equations 5 and 9): ``x+ = G(z_T, noisy(c, l), w)`` with c the embedding, l the noise level and
w an empty prompt. The pipeline is that of diffusers (extra ``unclip``); what it does image by image is done for batches
here, with a noise level and a random stream for every image.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Sequence
from typing import Any

import torch
import torch.nn.functional as F
from torch import Tensor

from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.losses.quality import map_pools, pair_quality
from viewsmith.networks.clip import clip_features, is_local_folder
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
BLOCK = 16  # images that CLIP looks at in one go
GRAY = (0.299, 0.587, 0.114)


class StableUnCLIP:
    """Stable unCLIP as a generator of views: uint8 images in, uint8 images of the same size out.

    Parameters
    ----------
    pipeline : diffusers.StableUnCLIPImg2ImgPipeline
    steps : int
        Of the sampler; the published views took 20.
    guidance : float
        g in ``unconditional + g (conditional - unconditional)``; published 10. 1: none, at half the work.
    scheduler : {"ddim", "ddpm", "dpm", "pndm", "euler"}, optional
        Sampler; by default the checkpoint's own.
    size : int, optional
        Side of the generated images in pixels, before they are resized to the sources'; a multiple of 8, or more for
        deeper autoencoders. Default: what the checkpoint was made for.

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
        if steps < 1:
            raise InputError(f"steps is {steps}, expected at least 1")
        if not guidance >= 1:
            raise InputError(f"guidance is {guidance}, expected a number of at least 1, where there is none")
        self.factor = 2 ** (len(pipeline.vae.config.block_out_channels) - 1)
        size = pipeline.unet.config.sample_size * self.factor if size is None else size
        if size < self.factor or size % self.factor:
            raise InputError(f"the size of generated images is {size}, expected a multiple of {self.factor}")
        self.pipeline, self.steps, self.guidance, self.size = pipeline, steps, guidance, size
        self.origin = ""
        self.scheduler = pipeline.scheduler if scheduler is None else _scheduler(scheduler, pipeline.scheduler)
        self._prompt: Tensor | None = None
        self._seen: tuple[Tensor, Tensor] | None = None

    @classmethod
    def load(cls, where: str, *, device: torch.device | str = "cpu", **settings: Any) -> StableUnCLIP:
        """The generator with the weights of a folder, or of a model on the hub, which are fetched.

        Parameters
        ----------
        where : str
            Folder in the layout of diffusers with safetensors, or the hub's OWNER/NAME.
        device : torch.device or str
            On a GPU the weights are kept in float16, as published.
        **settings
            As of the class.

        Raises
        ------
        InputError
            There are no such weights, or diffusers (extra ``unclip``) is not installed.
        """
        try:
            diffusers: Any = importlib.import_module("diffusers")
            importlib.import_module("transformers")
        except ImportError as error:
            raise MissingExtra(error.name or "diffusers", "unclip", "the generator 'unclip'") from error
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
                f"cannot load Stable unCLIP from {where!r} ({detail}): give its folder, complete"
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
        """What made the views, for the head of a bank."""
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
    def look(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """What CLIP sees in images, in one pass.

        Parameters
        ----------
        rows : uint8 Tensor, shape (B, H, W) or (B, H, W, C)

        Returns
        -------
        embedding : Tensor, shape (B, E)
            The condition c.
        maps : Tensor, shape (B, h, w, D)
            Features of the patches after the last norm, for the share of foreground.
        """
        settings = self.pipeline.feature_extractor
        crop = settings.crop_size
        size = (crop, crop) if isinstance(crop, int) else (crop["height"], crop["width"])
        pixels = _color(rows).to(self.device)
        output, maps = clip_features(self.pipeline.image_encoder, pixels, size, settings.image_mean, settings.image_std)
        return output.image_embeds, maps

    @torch.no_grad()
    def noisy(self, embedding: Tensor, level: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
        """The condition as the denoiser takes it, (B, 2 E): ``sqrt(abar_l) c + sqrt(1 - abar_l) e`` beside a code of l.

        Noise is added after the checkpoint's own normalization, on its own schedule, which is not that of the images.
        """
        normalizer, schedule = self.pipeline.image_normalizer, self.pipeline.image_noising_scheduler
        level = level.to(self.device)
        mean, std = (each.to(embedding) for each in (normalizer.mean, normalizer.std))
        noise = randn(embedding, streams)
        noised = schedule.add_noise((embedding - mean) / std, noise, level) * std + mean
        timestep_embedding = importlib.import_module("diffusers.models.embeddings").get_timestep_embedding
        code = timestep_embedding(level, embedding.shape[1], flip_sin_to_cos=True, downscale_freq_shift=0)
        return torch.cat([noised, code.to(noised)], dim=1)

    def fractions(self, rows: Tensor) -> tuple[Tensor, Tensor]:
        """Share of foreground in each of all images, float64 (n,), by the patches of CLIP; and the axis, (D,)."""
        return foreground_fractions(lambda index: self.look(rows[index])[1].float(), len(rows), block=BLOCK)

    def quality(self, rows: Tensor, views: Tensor, axis: Tensor) -> Tensor:
        """q of images and a view of each, float32 (B,), by the patches of CLIP."""
        pools = (map_pools(self.look(each)[1].float(), axis.to(self.device)) for each in (rows, views))
        return pair_quality(*pools).cpu()

    @torch.no_grad()
    def generate(
        self, rows: Tensor, index: Tensor | None, view: int, level: Tensor, streams: Sequence[torch.Generator]
    ) -> Tensor:
        """A view of each image; CLIP looks once at a tensor of images that is given several times in a row.

        Parameters
        ----------
        rows : uint8 Tensor, shape (B, H, W) or (B, H, W, C)
        index : int64 Tensor, shape (B,), or None
        view : int
            Numbers of the images and of the view; not looked at.
        level : int64 Tensor, shape (B,)
            Noise on the condition of each, 0 to less than 1,000.
        streams : sequence of torch.Generator
            One for each image, on the device of the weights: noise of the condition first, then of the image.

        Returns
        -------
        uint8 Tensor like `rows`, on its device
        """
        if self._seen is None or self._seen[0] is not rows:
            self._seen = rows, self.look(rows)[0]
        embedding = self._seen[1]
        condition = self.noisy(embedding.to(self.dtype), level, streams)
        latents = self.latents(condition, streams)
        pixels = self.pipeline.vae.decode(latents / self.pipeline.vae.config.scaling_factor, return_dict=False)[0]
        return _like(((pixels.float() + 1) / 2).clamp(0, 1), rows)

    @torch.no_grad()
    def latents(self, condition: Tensor, streams: Sequence[torch.Generator]) -> Tensor:
        """Latent images (B, c, h, w) for conditions (B, 2 E), by the scheduler's reverse diffusion."""
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
        """Embedding of the empty prompt, (1, tokens, width), made once."""
        if self._prompt is None:
            self._prompt = self.pipeline.encode_prompt("", self.device, 1, False)[0]
        return self._prompt


def _scheduler(name: str, present: Any) -> Any:
    if name not in SCHEDULERS:
        raise InputError(f"the scheduler is {name!r}, expected one of {', '.join(SCHEDULERS)}")
    # Runge-Kutta steps at the start, which Stable Diffusion does without, need more of them.
    own = {"skip_prk_steps": True} if name == "pndm" else {}
    return getattr(importlib.import_module("diffusers"), SCHEDULERS[name]).from_config(present.config, **own)


def _color(rows: Tensor) -> Tensor:
    """Pixels from 0 to 1, (B, 3, H, W), of uint8 images (B, H, W) or (B, H, W, C)."""
    x = rows[:, None] if rows.ndim == 3 else rows.movedim(3, 1)
    return (x / 255).expand(-1, 3, -1, -1)


def _like(x: Tensor, rows: Tensor) -> Tensor:
    """uint8 images like `rows` from pixels from 0 to 1, (B, 3, h, w)."""
    height, width = rows.shape[1:3]
    x = F.interpolate(x, (height, width), mode="bicubic", antialias=True, align_corners=False)
    if rows.ndim == 3 or rows.shape[3] == 1:
        x = (x * torch.tensor(GRAY, device=x.device)[:, None, None]).sum(1, keepdim=True)
    x = (x * 255).round().clamp(0, 255).to(torch.uint8).to(rows.device)
    return x[:, 0] if rows.ndim == 3 else x.movedim(1, 3)
