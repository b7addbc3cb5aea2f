"""The encoder of recordings: that of letters, with a mask where values are not known."""

from torch import Tensor

from viewsmith.core.registry import register
from viewsmith.modalities.dna.networks import SequenceCNN
from viewsmith.modalities.series.gaps import filled, known_points
from viewsmith.networks.base import EncoderContext


class RecordingCNN(SequenceCNN):
    """Recordings (B, C, T) of any length to representations (B, n_components): `SequenceCNN`, NaN is padding."""

    def masked(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        known = known_points(x)
        return (x, None) if known is None else (filled(x), known)


@register("encoder", "cnn", help="a small convolutional network for CPUs", modalities="series", default_width=256)
def _recording_cnn(context: EncoderContext) -> RecordingCNN:
    return RecordingCNN(n_components=context.n_components, channels=context.channels)
