"""SupCon (Khosla et al. 2020): views of one class attract, all other views of the batch repel."""

from typing import Any

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather, local_rows
from viewsmith.core.errors import InputError, check
from viewsmith.core.registry import Positive, register
from viewsmith.core.tensors import on_host
from viewsmith.frameworks.base import Framework
from viewsmith.losses.sup_con import sup_con
from viewsmith.views.base import PositivePair


@register(
    "framework",
    "supcon",
    help="reads labels: views of one class attract, all other views of the batch repel",
    source="Khosla et al. 2020",
)
class SupCon(Framework):
    """SupCon: supervised SimCLR, all views of a class attract; `labels`, int64 (n,), are not saved with weights."""

    reads_labels = True
    temperature: Positive = 0.1

    def __init__(self, encoder: nn.Module, head: nn.Module, labels: Tensor | None = None, **options: Any) -> None:
        super().__init__(encoder, head, **options)
        self.labels = nn.Buffer(torch.zeros(0, dtype=torch.int64), persistent=False)
        if labels is not None:
            self.read_labels(labels)

    def read_labels(self, labels: Tensor) -> None:
        self.labels = nn.Buffer(labels.to(self.labels.device), persistent=False)

    def forward(self, pair: PositivePair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,), see `viewsmith.losses.sup_con`; `progress` has no effect."""
        z0, z1 = self.project_pair(pair).chunk(2)
        if not len(self.labels):
            raise InputError("supcon has no labels: give y to fit, or labels to the framework")
        if pair.ids is None:
            raise InputError("supcon needs the rows that the views show, and the pair has no ids: give index")
        if on_host(self.labels):  # on a GPU this would wait for the device
            largest = int(torch.cat(pair.ids).max())
            check(largest < len(self.labels), "the largest of ids", largest, f"a row of the {len(self.labels)} labels")
        labels = self.labels[pair.ids[0]], self.labels[pair.ids[1]]
        with torch.autocast(z0.device.type, enabled=False):
            return sup_con(
                z0,
                z1,
                labels,
                temperature=self.temperature,
                gathered=(gather(z0), gather(z1)),
                gathered_labels=(gather(labels[0]), gather(labels[1])),
                offset=local_rows(len(z0)).start,
            )
