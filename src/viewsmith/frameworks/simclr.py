"""SimCLR (Chen et al. 2020): the two views of a sample attract, all others of the batch repel."""

from __future__ import annotations

from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.distributed import gather, is_distributed, local_rows
from viewsmith.frameworks.common import check_no_local_views
from viewsmith.losses.nt_xent import Kernel, nt_xent
from viewsmith.views.pair import Pair


class SimCLR(nn.Module):
    """Encoder and head under NT-Xent.

    Parameters
    ----------
    encoder : nn.Module
        Samples (B, ...) to representations h (B, n_components).
    head : nn.Module
        Representations to embeddings z (B, d), where the loss lives.
    temperature : float
    kernel : {"cosine", "cauchy"}
    negatives : {"all", "cross"}
        The last three as in `viewsmith.losses.nt_xent`.
    """

    def __init__(
        self,
        encoder: nn.Module,
        head: nn.Module,
        *,
        temperature: float = 0.5,
        kernel: Kernel = "cosine",
        negatives: Literal["all", "cross"] = "all",
    ) -> None:
        super().__init__()
        self.encoder, self.head = encoder, head
        self.temperature = temperature
        self.kernel: Kernel = kernel
        self.negatives: Literal["all", "cross"] = negatives

    def forward(self, pair: Pair, progress: float = 0.0) -> Tensor:
        """Pair losses, shape (B,). Negatives are the views of all processes' batches; `progress` changes nothing."""
        check_no_local_views(pair, "simclr")
        # One forward for both views: they share their BatchNorm statistics. The contrast is taken in float32 at least.
        z = self.head(self.encoder(torch.cat([pair.first, pair.second])))
        z0, z1 = (z if z.dtype == torch.float64 else z.float()).chunk(2)
        gathered = gathered_ids = None
        if is_distributed():
            gathered = gather(z0), gather(z1)
            gathered_ids = None if pair.ids is None else (gather(pair.ids[0]), gather(pair.ids[1]))
        with torch.autocast(z.device.type, enabled=False):
            return nt_xent(
                z0,
                z1,
                temperature=self.temperature,
                kernel=self.kernel,
                negatives=self.negatives,
                ids=pair.ids,
                gathered=gathered,
                gathered_ids=gathered_ids,
                offset=local_rows(len(z0)).start,
            )
