"""Contrastive learning with fixed view makers: the baseline for learned augmentations."""

from torch import Tensor

from viewsmith.core.schedule import Batch, Phase, Update
from viewsmith.methods.pairs import PairMethod


class ContrastiveMethod(PairMethod):
    """A framework that is trained on pairs of fixed views."""

    def phases(self) -> list[Phase]:
        update = Update("encoder", self.encoder_step, (self.framework, self.views), self.optimizer)
        return [Phase("train", self.epochs, [update])]

    def encoder_step(self, batch: Batch) -> tuple[Tensor, dict[str, Tensor]]:
        """Losses of two views of each sample; trains encoder, head and view makers."""
        return self.framework(self.views.for_batch(batch, self.framework), batch.progress), {}

    @property
    def takes_coordinates(self) -> bool:
        return self.views.mixes_rows
