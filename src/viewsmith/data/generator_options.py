"""The options of `generate_cache`, each declared once: its checks, documentation and flags follow from here."""

import re
from dataclasses import dataclass
from pathlib import Path
from typing import Annotated, Any, Literal

from viewsmith.core.errors import InputError
from viewsmith.core.options import Flag, check_declared, texts_of
from viewsmith.core.registry import Bounds

#: How patches are compared with the threshold of the foreground (`viewsmith.views.generated.noise_level.Foreground`).
ForegroundMap = Literal["projection", "min-max"]

#: Of the levels of noise (`viewsmith.views.generated.noise_level.LEVELS`).
LARGEST_LEVEL = 400

#: Samples in a block, by kind of generator.
BLOCKS = {"unclip": 16, "diffusion": 256, "folder": 256}

#: Options that not every generator has, besides `features`.
OF_ONE_KIND = ("run", "guidance", "scheduler", "noise", "steps", "candidates", "epochs")


@dataclass(frozen=True, kw_only=True)
class GeneratorOptions:
    """How views are generated: the keyword arguments of `generate_cache`."""

    generator: str = "diffusion"
    """diffusion (default), unclip:FOLDER or unclip:OWNER/NAME (extra unclip), folder:PATH."""
    run: Annotated[Path | None, Flag("RUN")] = None
    """A DiffAug run with the generator to use; default: diffusion trains one and saves it in the view cache."""
    seed: Annotated[int, Bounds(ge=0)] = 0
    """Same seed, same views."""
    views_per_sample: Annotated[int | None, Flag("K"), Bounds(ge=1)] = None
    """Views of each sample; default: 1, from a folder as many as it has."""
    steps: Annotated[int | None, Bounds(ge=1)] = None
    """Steps of the sampler; default: 20 (unclip), those of the run."""
    guidance: float | None = None
    """Guidance of unclip; default: 10."""
    scheduler: str | None = None
    """Sampler of unclip: ddim, ddpm, dpm, pndm or euler; default: that of the weights."""
    noise: str | None = None
    """adaptive (default), random or constant:L, L from 0 to 400."""
    foreground: ForegroundMap = "projection"
    """Adaptive noise of images: patches are foreground by their projection on the first component, or by min-max of it.

    min-max: scaled to 0 to 1 for each image, as in GenView's equation 7; projection: as it is, as in its program."""
    candidates: Annotated[int | None, Flag("C"), Bounds(ge=1)] = None
    """Views generated for each one that is kept, chosen by quality and novelty (diffusion); default: 1.

    If there are several, those outside the neighborhood of their sample are rejected, and the others are chosen by
    agreement in representation and novelty in input space. With random noise, where the views of a sample differ in
    their level, there is no choice."""
    features: Annotated[Any, Flag("NETWORK")] = "encoder"
    """Network for foreground and quality of images: encoder (default) or clip:FOLDER, clip:OWNER/NAME (extra unclip).

    For diffusion and folder: the image network of CLIP, or a network from scaled images (B, C, H, W) to feature maps
    (B, D, h, w), for every noise; "encoder": the encoder of the run, for adaptive noise only."""
    shard: Annotated[tuple[int, int], Flag("I/N")] = (1, 1)
    """Part of the job, I of N, for folders that are merged."""
    batch_size: Annotated[int | None, Bounds(ge=1)] = None
    """Samples in a block; default: 16 (unclip), 256."""
    epochs: Annotated[int | None, Bounds(ge=1)] = None
    """Epochs of a generator's training; default: as many as fit the minutes."""
    minutes: float | None = None
    """Stop after this many minutes, a generator's training included; default: its training takes at most 10.

    The same call makes what is missing. For the default see `viewsmith.workflows.generator_training.plan_training`."""
    device: str = "auto"
    """auto, cpu or cuda."""

    @property
    def name(self) -> str:
        """The kind of generator."""
        return self.generator.partition(":")[0]

    @property
    def where(self) -> str:
        """Its weights or path."""
        return self.generator.partition(":")[2]

    def check(self, *, separate: bool = False) -> None:
        """Raise InputError for an unknown generator, or options that it lacks, `separate` features included."""
        for option in texts_of(GeneratorOptions):
            check_declared(self, option)
        if self.noise is not None:
            check_noise(self.noise)
        name, where = self.name, self.where
        if name not in BLOCKS or (name == "diffusion" and where):
            raise InputError(f"the generator is {name!r}, expected unclip:WEIGHTS, diffusion or folder:PATH")
        if name == "unclip" and not where:
            raise InputError(
                "the generator unclip needs weights: give unclip:FOLDER, or unclip:OWNER/NAME to download a model from "
                "the hub, such as unclip:stabilityai/stable-diffusion-2-1-unclip"
            )
        if name == "folder" and not where:
            raise InputError("the generator folder needs a path: give folder:PATH")
        accepted = {
            "diffusion": ("run", "noise", "steps", "candidates", "features", "epochs"),
            "unclip": ("guidance", "scheduler", "noise", "steps"),  # it includes a CLIP network
            "folder": ("features",),
        }[name]
        given = [option for option in OF_ONE_KIND if getattr(self, option) is not None]
        for option in [*given, *(["features"] if separate else [])]:
            if option not in accepted:
                raise InputError(f"the generator {name!r} has no option {option}: leave --{option} out")
        if (self.candidates or 1) > 1 and self.noise == "random":
            raise InputError(
                f"candidates is {self.candidates}, and the noise is random, which gives each view a level of its own: "
                "use adaptive or constant:L, or leave --candidates out"
            )
        if self.run is not None and self.epochs is not None:
            raise InputError(f"the generator of {self.run} is trained already: leave --epochs out, or --run")


def check_noise(noise: str) -> str:
    """Return `noise` if it is valid for a generator (`find_levels`)."""
    constant = re.fullmatch(r"constant:(\d{1,3})", noise)
    if noise in ("adaptive", "random") or (constant and int(constant[1]) <= LARGEST_LEVEL):
        return noise
    raise InputError(f"noise is {noise!r}, expected adaptive, random or constant:L with L from 0 to {LARGEST_LEVEL}")


def parse_shard(text: str) -> tuple[int, int]:
    """Convert the text i/n, such as "2/8", to (i, n)."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"the shard is {text!r}, expected i/n with i from 1 to n, such as 1/4")
    return int(found[1]), int(found[2])
