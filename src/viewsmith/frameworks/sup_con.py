"""SupCon (Khosla et al. 2020): views of samples of one class attract, all others of the batch repel."""

from __future__ import annotations

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather, local_rows
from viewsmith.core.errors import InputError
from viewsmith.core.registry import register
from viewsmith.frameworks.base import Framework
from viewsmith.frameworks.common import check_no_local_views, check_temperature, full_precision
from viewsmith.losses.sup_con import sup_con
from viewsmith.views.pair import Pair


@register(
    "framework",
    "supcon",
    help="reads labels: views of one class attract, all others of the batch repel",
    source="Khosla et al. 2020",
)
class SupCon(Framework):
    """The supervised contrast: a class takes the place of a sample in SimCLR. It has no state.

    Labels are those of the rows that the views show (`Pair.ids`); they are not saved with the weights.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components).
    head : nn.Module
        Representations to projections z (B, d).
    labels : Tensor of int64, shape (n,), optional
        Class of each row of the training set; an estimator sets it from the y of ``fit(X, y)`` (`read_labels`).
    temperature : float
        tau.

    Attributes
    ----------
    labels : Tensor of int64, shape (n,)
        Of length 0 until they are known.

    Raises
    ------
    InputError
        A setting is out of range.
    """

    reads_labels = True
    labels: Tensor

    def __init__(
        self, encoder: nn.Module, head: nn.Module, labels: Tensor | None = None, *, temperature: float = 0.1
    ) -> None:
        super().__init__()
        check_temperature("temperature", temperature)
        self.encoder, self.head, self.temperature = encoder, head, temperature
        self.register_buffer("labels", torch.zeros(0, dtype=torch.int64), persistent=False)
        if labels is not None:
            self.read_labels(labels)

    def read_labels(self, labels: Tensor) -> None:
        self.labels = labels.to(self.labels.device)

    def forward(self, pair: Pair, progress: float = 0.0) -> Tensor:
        """Losses, shape (B,), see `viewsmith.losses.sup_con`; `progress` changes nothing.

        Raises
        ------
        InputError
            There are no labels, it is not known which rows the views show, or there are local views.
        """
        check_no_local_views(pair, "supcon")
        if pair.ids is None or not len(self.labels):
            missing = "the pair does not say which rows it shows: give index" if len(self.labels) else "it has none"
            raise InputError(f"supcon needs the labels of the samples, and {missing}")
        labels = self.labels[pair.ids[0]], self.labels[pair.ids[1]]
        # One forward for both views: they share their BatchNorm statistics.
        z0, z1 = full_precision(self.head(self.encoder(torch.cat([pair.first, pair.second])))).chunk(2)
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
