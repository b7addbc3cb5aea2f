"""The options of `viewsmith.Discovery`, each declared once: checks, documentation and flags follow from here."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Any, Literal

from viewsmith.core.errors import InputError, one_line
from viewsmith.core.registry import Bounds, Flag, Portion, texts_of

Count = Annotated[int, Bounds(ge=1)]


@dataclass(kw_only=True, eq=False, repr=False)
class DiscoveryOptions:
    """What recurs is sought with these options."""

    modality: Annotated[str, Flag("NAME")] = "auto"
    """auto, images, dna, proteins, letters:ABC or series: arrays of recordings.

    "auto": letters are DNA or proteins, uint8 arrays (n, H, W) or (n, H, W, C) are images, other arrays (n, T) are
    recordings of one channel. Recordings of several are never recognized."""
    windows: Annotated[Sequence[int] | None, Flag("K,K")] = None
    """Windows that are tried: cells of 4 pixels (4,5,7,9), letters (8,12,16,22), points (1/24 to 1/8).

    They are sides of squares in images, where half of the object's side or less is best. None: those in brackets, of
    recordings an eighth to a 24th of a piece."""
    features: Annotated[Any, Flag("auto|pieces|patches|timm:NAME|RUN")] = "auto"
    """Images: what is compared: pieces of a plain background, patches, or a network of timm or a trained model.

    "pieces": things apart on a plain background, such as nuclei in fluorescence, of any number and size. "patches":
    features learned from the images. "auto": pieces, if the images have such a background and neither windows nor
    kinds are given, otherwise patches. Maps of a layer of a network: "timm:NAME" (extra timm), the encoder of a run
    folder or of a fitted viewsmith model of images, or an own module that takes float32 (b, C, H, W), pixels in 0 to 1.
    A function of images, uint8 (b, H, W, C), gives maps, float32 (b, d, h, w)."""
    feature_layer: Annotated[str | None, Flag("NAME")] = None
    """Layer of the network; default: the deepest one with cells of at most 8 pixels.

    If none has such cells, the largest map."""
    feature_weights: Annotated[str | None, Flag("FILE")] = None
    """For timm: a safetensors file, or "random"; default: those that timm publishes."""
    cache: str | None = None
    """Images: a folder in which features are kept in a file, and reused after a stop: those of a network, computed once
    for `fit`, `locate` and `crops`, and patches of the images that are fitted."""
    device: str = "auto"
    """Images: where features are computed and searched, auto (a GPU, if there is one), cpu or cuda."""
    image_size: Annotated[int, Bounds(ge=32)] = 128
    """Images: longer side to which they are reduced, in pixels (default: 128).

    Smaller images stay as they are. For a network whose cells have s pixels, they are larger by s / 4, so that there
    are as many cells."""
    both_strands: bool | Literal["auto"] = "auto"
    """DNA: whether a site may be on the other strand; "auto": except in RNA, letters with U and without T."""
    kinds: Count = 1
    """Largest number of kinds of parts, e.g. of cells (default: 1).

    After the first, its places are masked and the next is sought; in images also one that is small, and one that fills
    the images."""
    max_parts: Count | None = None
    """Largest number of parts of a kind in a sample (default: 1; pieces: all), e.g. 12 if an image is full of cells.

    In other images, more than one also finds a first kind that fills the images, of which one box in each is not enough
    to see what recurs."""
    max_q: Portion = 0.1
    """Largest q-value of a part that is listed, above 0 and at most 1 (default: 0.1)."""
    unjudged: bool = False
    """Images: also list parts of further kinds of which it is not known how many are wrong.

    Those are the small kind and the one that fills the images: their q-values do not hold, see the documentation."""
    random_state: int = 0
    """Seed of the search."""


def check_modality(name: str) -> None:
    """Raise InputError unless something can be sought in samples of a modality."""
    if name not in ("auto", "images", "dna", "proteins", "series") and not name.startswith("letters:"):
        raise InputError(
            f"modality is {one_line(name, 60)!r}, expected auto, images, dna, proteins, letters:ABC (an own alphabet) "
            "or series"
        )


ONE_STRAND = "the letters are RNA (U, no T): sites are sought on the given strand alone"

#: Options that are flags under their own name.
FLAGS = [o for o in texts_of(DiscoveryOptions) if o not in ("cache", "both_strands", "random_state")]
_NAMES = "|".join([*FLAGS, "crop_size"])


def as_flags(text: str) -> str:
    """A message of discovery, with options such as `max_parts=12` or `max_q is 2`, written with flags."""
    text = re.sub(rf"\b({_NAMES})=True\b", lambda m: f"--{m[1].replace('_', '-')}", text)
    text = re.sub(rf"\b({_NAMES})=(['\"]?)([\w.]+)\2", lambda m: f"--{m[1].replace('_', '-')} {m[3]}", text)
    text = re.sub(rf"\b({_NAMES})(?= is )", lambda m: f"--{m[1].replace('_', '-')}", text)
    return re.sub(r"(?<!-)\bmax_(q|parts)\b", r"--max-\1", text)
