"""Custom transformations for CRL-TAC: inspected in fit, and described by a text in configurations."""

from __future__ import annotations

import copy
from collections.abc import Callable, Sequence
from typing import Any, Protocol

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.messages import error_text
from viewsmith.core.registry import find
from viewsmith.core.samples import block_size
from viewsmith.domains import Domain
from viewsmith.estimators.build.plan import TrainingData
from viewsmith.estimators.build.sizes import check_crops
from viewsmith.views.learned.custom_transforms import Functions
from viewsmith.views.learned.transforms import Family

CUSTOM = "family:"  # prefix of a custom family in configurations

FamilyOption = str | Family | Sequence[Callable[[Tensor], Tensor]]


class CustomOptions(Protocol):
    """The arguments of CRL-TAC that may be custom parts."""

    @property
    def family(self) -> FamilyOption: ...
    @property
    def encoder(self) -> str | nn.Module: ...


def family_text(family: FamilyOption) -> str:
    """The text for a family in a configuration."""
    if isinstance(family, str):
        return family
    if isinstance(family, Family):
        return f"{CUSTOM}{type(family).__name__} of {family.size}"
    return f"{CUSTOM}{len(family)} functions"


def is_custom(family: FamilyOption) -> bool:
    """Whether the family is custom, not a text.

    Raises
    ------
    InputError
        An unknown text, or that of a custom family, which is missing.
    """
    if not isinstance(family, str):
        return True
    if family.startswith(CUSTOM):
        raise InputError(
            f"the family of this model is custom ({family.removeprefix(CUSTOM)}): give it, as in "
            "viewsmith.load(run, family=family)"
        )
    if family != "auto":
        raise InputError(
            f"family is {family!r}, expected 'auto', or in Python a viewsmith.views.Family or a list of functions"
        )
    return False


def copy_of(family: FamilyOption) -> Family:
    """A copy of the family, with frozen weights if it has any."""
    assert not isinstance(family, str)
    made = copy.deepcopy(family) if isinstance(family, Family) else Functions(family)
    return made.requires_grad_(False)


def inspect_family(options: CustomOptions, shared: dict[str, Any], data: TrainingData) -> dict[str, Any]:
    """Size and shapes of a custom family, from its views of some training samples.

    Parameters
    ----------
    options : CRLTAC
    shared : dict
        The shared settings as resolved.
    data : TrainingData

    Raises
    ------
    InputError
        The family has fewer than two transformations; a transformation fails; the number of views is wrong; views are
        not finite, differ between two calls, or do not fit the encoder.
    """
    x, device = data.x, data.device
    family = copy_of(options.family).to(device)
    name, size = type(family).__name__, getattr(family, "size", None)
    if not isinstance(size, int) or size < 2:
        raise InputError(f"the family {name} has size {size}, expected at least 2 transformations")
    names = getattr(family, "names", None)
    if names is not None and (isinstance(names, str) or [*map(str, names)] != [*names] or len(names) != size):
        raise InputError(f"the family {name} has the names {names!r}, expected {size} strings or None")
    some = x[: max(2, min(64, block_size(x[:1]) // size))].to(device)
    with torch.no_grad():
        try:
            views, again = family.all_views(some), family.all_views(some)
        except InputError:
            raise
        except Exception as error:
            raise InputError(f"the family {name} fails on samples {tuple(some.shape)}: {error_text(error)}") from error
    if not isinstance(views, Tensor) or views.shape[:2] != (len(some), size) or views.ndim < 3:
        given = tuple(views.shape) if isinstance(views, Tensor) else type(views).__name__
        raise InputError(
            f"the family {name} returns {given}, expected ({len(some)}, {size}, ...): all views of each sample"
        )
    if not torch.isfinite(views).all():
        raise InputError(f"the family {name} returned values that are not finite for samples of the training set")
    if not torch.allclose(views, again):
        raise InputError(
            f"the family {name} returns different views of the same samples in a second call: expected the same views; "
            "draw random parameters only once"
        )
    shapes = tuple(some.shape[1:]), tuple(views.shape[2:])
    if not isinstance(options.encoder, nn.Module):  # custom encoders are tested on the views later
        _check_encoder(shared["encoder"], data.domain, shapes)
    return {"size": size, "sample": list(shapes[0]), "view": list(shapes[1])}


def _check_encoder(encoder: str, domain: Domain, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """Check that the encoder accepts the views."""
    if not like_samples(*shapes):
        raise InputError(
            f"the encoder {encoder} expects samples of shape {shapes[0]}, but the views of the family have shape "
            f"{shapes[1]}: keep the number of features or channels, or give a custom encoder"
        )
    entry = find("encoder", encoder, domain.name)
    check_crops("views", shapes[1][1:], entry, encoder, domain, shapes[0][1:])


def like_samples(sample: Sequence[int], view: Sequence[int]) -> bool:
    """Whether views have as many features or channels as samples; images and sequences may be smaller."""
    return len(view) == len(sample) and view[0] == sample[0]


def check_like_samples(sample: Sequence[int], view: Sequence[int]) -> None:
    """Raise InputError if views are not `like_samples`."""
    if not like_samples(sample, view):
        raise InputError(
            f"views of the custom family have shape {tuple(view)}, unlike samples {tuple(sample)}, and cannot be "
            "converted to the units of the data: use method_.channel.family.all_views(torch.tensor(scaled(X)))"
        )


def family_of_run(family: FamilyOption, known: dict[str, Any], domain: Domain) -> Family:
    """A copy of the custom family for a loaded model, with the shapes that were inspected in fit.

    Raises
    ------
    InputError
        The number of transformations has changed.
    """
    made = copy_of(family)
    if made.size != known["size"]:
        raise InputError(
            f"the family has {made.size} transformations, but the model was trained with {known['size']}: give the "
            "family that was given to fit"
        )
    if None not in domain.required_shape(known["sample"]):  # some domains have samples of variable length
        made.shapes = tuple(known["sample"]), tuple(known["view"])
    return made
