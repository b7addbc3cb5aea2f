"""Where a channel looks: regions and features on which P(T|x) concentrates, and known places that it starts from.

Regions are computed from P(T|x) and the box or mask of each view. A box is (top, left, height, width) in pixels or
bases; a window of a sequence is a box of height 1. None of these functions uses labels.
"""

from typing import NamedTuple

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.losses.info_max import entropy
from viewsmith.modalities.images.pixels import of_type

#: The probability of a box is that of the views with at least this overlap (intersection over union) with it. Views of
#: its size then cover at least half of its area.
SAME = 1 / 3

#: Views are near each other if their boxes overlap by at least this much: crops of 20 pixels whose corners are up to 8
#: pixels apart in both directions, or 12 in one.
NEAR = 0.2

#: Two boxes of one sample overlap at most this much.
APART = 0.1

#: The most probable view at a further box is at least so many times as probable as the median view of the sample.
CLEAR = 3000.0

#: Largest effective number of transformations with which regions are located, as a fraction of all transformations,
#: and as a multiple of the effective number of the training samples.
NEAR_UNIFORM, UNLIKE_TRAINING = 0.8, 4.0

#: Largest number of overlaps computed at a time.
MAX_OVERLAPS = 2**22


class Boxes(NamedTuple):
    """n boxes (top, left, height, width) of each of B samples, in the order in which they were found."""

    boxes: Tensor
    probability: Tensor  # that a view from P(T|x) overlaps by `SAME`, apart from the boxes before it
    found: Tensor


def largest_effective(size: int, trained: float = 0.0) -> float:
    """Largest effective number of M transformations, exp of the entropy of P(T|x), with which regions are located, by
    that of the training samples (0 if unknown)."""
    return min(NEAR_UNIFORM * size, UNLIKE_TRAINING * trained if trained else size)


def is_concentrated(p: Tensor, limit: float) -> Tensor:
    """Whether the effective number of transformations of P(T|x), (B, M), is at most `limit`: bool (B,)."""
    return entropy(p.log()).exp() <= limit


def overlaps(a: Tensor, b: Tensor) -> Tensor:
    """Intersection over union of boxes (..., m, 4) and (..., k, 4): (..., m, k), from 0 to 1."""
    a, b = a[..., :, None, :], b[..., None, :, :]
    first, last = torch.maximum(a[..., :2], b[..., :2]), torch.minimum(a[..., :2] + a[..., 2:], b[..., :2] + b[..., 2:])
    common = (last - first).clamp_min(0).prod(dim=-1)
    return common / (a[..., 2:].prod(dim=-1) + b[..., 2:].prod(dim=-1) - common)


def near_views(boxes: Tensor) -> Tensor:
    """Which of the views with boxes (M, 4) overlap (intersection over union) by at least `NEAR`: bool (M, M)."""
    return torch.cat([overlaps(part, boxes) >= NEAR for part in boxes.split(max(1, MAX_OVERLAPS // len(boxes)))])


def expected_overlaps(p: Tensor, boxes: Tensor) -> Tensor:
    """Expected overlap of the box of each transformation, (1 or B, M, 4), with that of one drawn from P(T|x), (B,
    M)."""
    weights = p.unflatten(0, (len(boxes), -1))
    parts = boxes.split(max(1, MAX_OVERLAPS // boxes.shape[:2].numel()), dim=1)
    return torch.cat([weights @ overlaps(boxes, part) for part in parts], dim=2).flatten(0, 1)


def refine(p: Tensor, boxes: Tensor, peak: Tensor) -> Tensor:
    """Mean box, (B, 4), of the views that have the size of a peak, int64 (B,), and overlap it by at least `SAME`,
    weighted by P(T|x), (B, M)."""
    at = _at(boxes, peak, len(p))
    near = (overlaps(boxes, at[:, None])[..., 0] >= SAME) & (boxes[..., 2:] == at[:, None, 2:]).all(dim=2)
    weights = p * near
    total = weights.sum(dim=1, keepdim=True)
    corner = (weights[:, None] @ boxes[..., :2])[:, 0] / total.clamp_min(torch.finfo(p.dtype).tiny)
    return torch.cat([torch.where(total > 0, corner, at[:, :2]), at[:, 2:]], dim=1)


def locate_boxes(p: Tensor, boxes: Tensor, n: int, limit: float) -> Boxes:
    """Locate up to n separate boxes on which P(T|x) concentrates.

    The first box is the view with the largest expected overlap with a view drawn from P(T|x). So both its position and
    its size (of crops at several scales) agree with most of the probability. `refine` then moves it between the
    positions of the grid. Views that overlap it by more than `APART` are removed (non-maximum suppression), and the
    next box is searched in the same way in the distribution of the others. Their probability can be small, for the
    objective of the channel needs only one of several objects. So what counts is how far P(T|x) rises at a box.

    No box is found if P(T|x) is too close to uniform (`is_concentrated`). The search of further boxes ends at a box
    whose most probable view is less than `CLEAR` times as probable as the median view, or is beside a more probable
    view that was removed.

    P(T|x) is (B, M), the boxes of the views (1 or B, M, 4); `limit` is that of `largest_effective`.
    """
    p, boxes = p.double(), boxes.double()
    found, free = is_concentrated(p, limit), torch.ones_like(p, dtype=torch.bool)
    made: list[Boxes] = []
    for _ in range(n):
        left = p * free
        left = left / left.sum(dim=1, keepdim=True).clamp_min(torch.finfo(p.dtype).tiny)
        peak = expected_overlaps(left, boxes).where(free, -1).argmax(dim=1)
        box = refine(left, boxes, peak)
        if made:  # the mean of two boxes on both sides of an earlier box may overlap it
            earlier = torch.stack([one.boxes for one in made], dim=1)
            on_earlier = (overlaps(earlier, box[:, None]) > APART).any(dim=1)
            box = torch.where(on_earlier, _at(boxes, peak, len(p)), box)
        overlap = overlaps(boxes, box[:, None])[..., 0]
        here = overlap >= SAME
        probability = (left * (here & free)).sum(dim=1).clamp_max(1)  # above 1 by rounding
        if made:
            highest = (p * (here & free)).amax(dim=1)
            rises = (highest > 0) & (highest >= CLEAR * p.median(dim=1).values)
            found = found & rises & (highest >= (p * here).amax(dim=1))
        made.append(Boxes(box, probability, found))
        free = free & (overlap <= APART)
    return Boxes(*(torch.stack(parts, dim=1) for parts in zip(*made, strict=True)))


def _at(boxes: Tensor, index: Tensor, count: int) -> Tensor:
    """One box of each of `count` samples, (count, 4)."""
    return boxes.expand(count, -1, -1)[torch.arange(count, device=boxes.device), index]


def locate_features(p: Tensor, masks: Tensor, n: int, limit: float) -> tuple[Tensor, Tensor, Tensor]:
    """The n features that views keep more often than under the uniform distribution, the largest difference first.

    P(T|x) is (B, M), the masks (M, d). Returns features, int64 (B, n), the probability that a view keeps each, and
    whether any was found, bool (B, n).
    """
    p, masks = p.double(), masks.double()
    kept = p @ masks
    more, features = (kept - masks.mean(dim=0)).sort(dim=1, descending=True, stable=True)
    features, more = features[:, :n], more[:, :n]
    return features, kept.gather(1, features), is_concentrated(p, limit)[:, None] & (more > 0)


def crop_boxes(images: Tensor, boxes: Tensor, side: int) -> Tensor:
    """Crop one box (k, 4) from each image (k, H, W, C), as squares of one size. Boxes are moved to whole pixels; those
    of another size than `side` are resized (bilinear, with antialiasing)."""
    made = images.new_empty(len(images), side, side, images.shape[3])
    whole = boxes.round().long()
    sizes = torch.minimum(whole[:, 2:].clamp_min(1), torch.tensor(images.shape[1:3]))
    corners = torch.minimum(whole[:, :2].clamp_min(0), torch.tensor(images.shape[1:3]) - sizes)
    for crop, image, (top, left), (height, width) in zip(made, images, corners.tolist(), sizes.tolist(), strict=True):
        pixels = image[top : top + height, left : left + width]
        if (height, width) != (side, side):
            planes = pixels.movedim(2, 0)[None].float()
            pixels = F.interpolate(planes, (side, side), mode="bilinear", antialias=True)[0].movedim(0, 2)
            pixels = of_type(pixels, images.dtype)
        crop[:] = pixels
    return made


#: Overlap by which a view is e times as probable: some ten crops of a grid of 4 pixels share most of the probability.
SHARPNESS = 0.1


class KnownPlaces(nn.Module):
    """Q(T|x), on views that cover a known box: `q`, (n, M), 0 in rows without; `here`: overlap of `SAME`."""

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
        self.q = nn.Buffer(q.half(), persistent=False)
        self.here = nn.Buffer(known & (overlap >= SAME), persistent=False)

    def for_rows(self, index: Tensor, p: Tensor) -> tuple[Tensor, Tensor]:
        """Q of rows (B, M), which is P where no place is known, and whether it is known, (B,)."""
        q = self.q[index].to(p.dtype)
        known = q.sum(dim=1) > 0
        return torch.where(known[:, None], q, p), known

    def probability(self, index: Tensor, p: Tensor) -> Tensor:
        """Mean probability that a view drawn from P, (B, M), is at the known place; 0 without any, ()."""
        here = self.here[index]
        known = here.any(dim=1)
        return ((p * here).sum(dim=1) * known).sum() / known.sum().clamp_min(1)
