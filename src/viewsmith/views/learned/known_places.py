"""Places that are known in samples, as distributions over transformations that an augmentation channel starts from."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.views.learned.locations import SAME, overlaps

#: Overlap by which a view is e times as probable: some ten crops of a grid of 4 pixels share most of the probability.
SHARPNESS = 0.1


class KnownPlaces(nn.Module):
    """Q(T|x), concentrated on the views that cover a known box of a sample.

    Parameters
    ----------
    boxes : Tensor, shape (n, 4)
        Top, left, height and width in each training sample, in pixels; NaN where no place is known.
    views : Tensor, shape (M, 4)
        The box of each view.

    Attributes
    ----------
    q : Tensor of float16, shape (n, M)
        Q(T|x); rows without a known place are 0.
    here : Tensor of bool, shape (n, M)
        Whether a view overlaps the view at the place by at least `SAME`.
    """

    q: Tensor
    here: Tensor

    def __init__(self, boxes: Tensor, views: Tensor) -> None:
        super().__init__()
        middle = boxes[:, :2] + boxes[:, 2:] / 2
        # A view at the place: of the size of the views, around the middle of the box, within the sample.
        size = views[:, 2:].median(dim=0).values
        last = (views[:, :2] + views[:, 2:]).amax(dim=0)
        corner = torch.minimum((middle - size / 2).clamp_min(0), last - size)
        overlap = overlaps(torch.cat([corner, size.expand_as(corner)], dim=1), views)
        known = boxes.isfinite().all(dim=1, keepdim=True)
        q = torch.where(known, (overlap / SHARPNESS).softmax(dim=1), 0)
        self.register_buffer("q", q.half(), persistent=False)
        self.register_buffer("here", known & (overlap >= SAME), persistent=False)

    def for_rows(self, index: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Q of rows (B, M), which is P where no place is known, and whether it is known, (B,)."""
        q = self.q[index].to(p.dtype)
        known = q.sum(dim=1) > 0
        return torch.where(known[:, None], q, p), known

    def share(self, index: Tensor, p: Tensor) -> Tensor:
        """Mean probability that a view drawn from P, (B, M), is at the known place; 0 without any, ()."""
        here = self.here[index]
        known = here.any(dim=1)
        return ((p * here).sum(dim=1) * known).sum() / known.sum().clamp_min(1)
