"""Letters as input of networks: one-hot columns, an encoder, a denoiser; features: frequencies of k-mers, and
responses to a dictionary of windows."""

from collections.abc import Sequence
from functools import partial
from typing import Annotated

import numpy as np
import torch
import torch.nn.functional as F
from torch import Tensor, nn

from viewsmith.core.errors import InputError
from viewsmith.core.registry import Bounds, register
from viewsmith.core.tensors import on_host
from viewsmith.modalities.dna.letters import AMINO_ACIDS, NUCLEOTIDES, Alphabet, word_length
from viewsmith.networks import base
from viewsmith.networks.features import SAMPLED, Features, PatchResponses, patches_at
from viewsmith.networks.scaling import SkipCoordinates, SkipKinds, WithSkip, learned_columns


class LetterLatents(base.Latents):
    """Latents of letters (B, C, L): +1 for the letter, -1 for the others, 2/C - 1 if unknown, 0 for padding."""

    def encode(self, x: Tensor) -> Tensor:
        """Latents (B, 4, L) of scaled sequences (B, 4, L)."""
        return torch.where(self.mask(x), 2 * x - 1, 0)

    def decode(self, u: Tensor, x: Tensor) -> Tensor:
        """Scaled sequences (B, 4, L): the letter with the largest latent, 0 where `x` has padding."""
        letters = torch.zeros_like(x).scatter_(1, u.argmax(dim=1, keepdim=True), 1)
        return letters * self.mask(x)

    def mask(self, x: Tensor) -> Tensor:
        return real_positions(x)[:, None]


class OneHotLetters(nn.Module):
    """ASCII letters, uint8 (n, L), to one-hot columns (n, C, L) of an alphabet of C letters, and back; the unknown one
    is 1 / C of each, padding zeros."""

    def __init__(self, alphabet: Alphabet) -> None:
        super().__init__()
        self.alphabet = alphabet
        codes = torch.zeros(256, len(alphabet))
        for channel, letter in enumerate(alphabet.letters.encode()):
            codes[letter, channel] = codes[letter + 32, channel] = 1.0
        codes[ord(alphabet.unknown)] = codes[ord(alphabet.unknown.lower())] = 1 / len(alphabet)
        self.codes = nn.Buffer(codes, persistent=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.codes[x.int()].movedim(2, 1).contiguous()

    def inverse(self, x: Tensor) -> Tensor:
        """The letters of the largest entries, uint8 (n, L); the unknown one if all are equal, 0 for padding."""
        codes = torch.tensor(list(self.alphabet.letters.encode()), dtype=torch.uint8, device=x.device)
        letters = codes[x.argmax(dim=1)]
        letters[x.amax(dim=1) == x.amin(dim=1)] = ord(self.alphabet.unknown)
        letters[(x == 0).all(dim=1)] = 0
        return letters


class Nucleotides(OneHotLetters):
    """ASCII letters of DNA, uint8 (n, L), to scaled sequences (n, 4, L), and back; see `OneHotLetters`."""

    def __init__(self) -> None:
        super().__init__(NUCLEOTIDES)


def real_positions(x: Tensor) -> Tensor:
    """Which positions of scaled sequences (B, C, L) are letters, not padding: bool (B, L)."""
    # Four times as fast on a CPU as (x != 0).any(dim=1).
    return x.abs().amax(dim=1) > 0


def kmer_frequencies(x: Tensor, k: int = 4) -> Tensor:
    """Frequencies of the C^k words of length k (k-mers) of scaled sequences (B, C, L), in alphabetical order."""
    most, letter = x.max(dim=1)
    known = (most > 0.5) & (x.sum(dim=1) != 0)
    windows = max(0, x.shape[2] - k + 1)
    n, letters = x.shape[:2]  # `len` would fix the batch of an exported graph
    word = x.new_zeros(n, windows, dtype=torch.int64)
    valid = torch.ones(n, windows, dtype=torch.bool, device=x.device)
    for shift in range(k):
        word = letters * word + letter[:, shift : shift + windows]
        valid &= known[:, shift : shift + windows]
    counts = x.new_zeros(n, letters**k).scatter_add_(1, word, valid.to(x.dtype))
    return counts / counts.sum(dim=1, keepdim=True).clamp_min(1)


POOL = 4
LATER_KERNEL = 5

# Coordinates that are not learned are of at most so many positions.
LONGEST_SKIP = 512

# Length of the coordinates of words, as a multiple of that of bases.
LENGTH_OF_WORDS = 0.4


class SequenceBatchNorm(nn.BatchNorm1d):
    """BatchNorm, (B, c, L) to (B, c, L), over the positions that are `real`, bool (B, L); padding becomes zero."""

    def forward(self, x: Tensor, real: Tensor | None = None) -> Tensor:
        if real is None:
            return super().forward(x)
        if not self.training:
            return super().forward(x) * real[:, None]
        if not on_host(real):
            return self._normalize(x, real[:, None])
        bases = super().forward(x.mT[real])
        return bases.new_zeros(x.mT.shape).index_put((real,), bases).mT

    def _normalize(self, x: Tensor, real: Tensor) -> Tensor:
        """The same result without selecting the bases, because their number would have to be read from the GPU."""
        assert self.running_mean is not None and self.running_var is not None and self.num_batches_tracked is not None
        assert self.momentum is not None
        values, count = (x if x.dtype == torch.float64 else x.float()), real.sum()
        mean = values.masked_fill(~real, 0).sum((0, 2)) / count
        centered = (values - mean[:, None]).masked_fill(~real, 0)
        variance = centered.square().sum((0, 2)) / count
        if self.track_running_stats:
            unbiased = variance.detach() * count / (count - 1).clamp_min(1)
            self.num_batches_tracked += 1
            self.running_mean.lerp_(mean.detach().to(self.running_mean), self.momentum)
            self.running_var.lerp_(unbiased.to(self.running_var), self.momentum)
        scaled = centered * (self.weight * (variance + self.eps).rsqrt())[:, None] + self.bias[:, None]
        return scaled.masked_fill(~real, 0).to(x.dtype)


class ConvolutionBlock(nn.Module):
    """Convolution - BatchNorm - ReLU at full resolution, (B, n_in, L) to (B, n_out, L); padding stays zero."""

    def __init__(self, n_in: int, n_out: int, kernel: int) -> None:
        super().__init__()
        self.convolution = nn.Conv1d(n_in, n_out, kernel, padding=kernel // 2, bias=False)
        self.norm = SequenceBatchNorm(n_out)

    def forward(self, x: Tensor, real: Tensor | None) -> Tensor:
        # In place: in full resolution an activation of long sequences takes as much memory as all later layers.
        return F.relu(self.norm(self.convolution(x), real), inplace=True)


class SequenceCNN(nn.Module):
    """Letters (B, C, L) of any length to representations (B, n_components).

    Convolutions with BatchNorm and ReLU, the first over letters (motifs), with max-pooling over 4 positions in between;
    then the mean and the maximum over the positions of bases, and Linear - BatchNorm - ReLU. Padding is zero after
    every layer, so a representation does not depend on the length of the padding. In evaluation mode it does not depend
    on the other rows either.

    Parameters
    ----------
    widths : sequence of int
        Channels of each convolution.
    kernel : int
        Kernel size of the first convolution, in bases, odd; the others have kernel size 5.
    n_components : int
        Width of the representation.
    channels : int
        C.
    Attributes
    ----------
    stem_width : int
        Channels of `stem`.

    Raises
    ------
    InputError
        `widths` is empty or `kernel` is even.
    """

    def __init__(
        self, widths: Sequence[int] = (48, 96, 128), *, kernel: int = 11, n_components: int = 256, channels: int = 4
    ) -> None:
        super().__init__()
        if not widths or kernel % 2 == 0:
            raise InputError(f"widths = {widths}, kernel = {kernel}: expected at least one width and an odd kernel")
        self.n_components, self.stem_width = n_components, widths[0]
        kernels = [kernel] + [LATER_KERNEL] * (len(widths) - 1)
        self.blocks = nn.ModuleList(
            ConvolutionBlock(n_in, n_out, size)
            for n_in, n_out, size in zip([channels, *widths[:-1]], widths, kernels, strict=True)
        )
        self.project = nn.Linear(2 * widths[-1], n_components, bias=False)
        self.norm = nn.BatchNorm1d(n_components)

    def masked(self, x: Tensor) -> tuple[Tensor, Tensor | None]:
        """The input with zeros as padding, and which positions are no padding, bool (B, L); None: all."""
        real = real_positions(x)
        # Most training batches have no padding. Masks, which they do not need, would take a fifth of the time.
        return x, None if self.training and on_host(real) and bool(real.all()) else real

    def stem(self, x: Tensor) -> Tensor:
        """Activations of the first convolution, (B, widths[0], L): the match of each motif at each position."""
        return self.blocks[0](*self.masked(x))

    def forward(self, x: Tensor) -> Tensor:
        x, real = self.masked(x)
        h: Tensor = self.blocks[0](x, real)
        for block in self.blocks[1:]:
            h = _max_pool(h)
            real = None if real is None else _max_pool(real)
            h = block(h, real)
        mean = h.mean(dim=2) if real is None else h.sum(dim=2) / real.sum(dim=1, keepdim=True).clamp_min(1)
        return F.relu(self.norm(self.project(torch.cat([mean, h.amax(dim=2)], dim=1))))


def _max_pool(h: Tensor) -> Tensor:
    # On a CPU this is faster than max_pool1d. Activations are not negative, so padding is never the maximum.
    missing = -h.shape[-1] % POOL
    padded = F.pad(h, (0, missing)) if missing else h  # F.pad copies even if there is nothing to pad
    return padded.unflatten(-1, (-1, POOL)).amax(dim=-1)


@register(
    "encoder",
    "cnn",
    help="a small convolutional network for CPUs",
    modalities=("dna", "proteins", "letters:"),
    default_width=256,
    first_stage=True,
    default_skip=96,
)
def _sequence_cnn(
    context: base.EncoderContext,
    *,
    appended_pca: Annotated[int, Bounds(ge=0)] = 0,
    appended_length: Annotated[float, Bounds(gt=0)] = 24.0,
) -> nn.Module:
    """Build the small network; two thirds of `appended_pca` columns are principal coordinates of bases up to the 512th,
    of length `appended_length`, the others of words (of DNA, 4-mers), with .4 of it."""
    positions = min(context.row_shape[0], LONGEST_SKIP)
    letters, k = context.channels, word_length(context.channels)
    bases, words = partial(bases_by_position, positions=positions), partial(kmer_frequencies, k=k)
    of_words = appended_pca // 3
    of_bases = min(letters * positions, appended_pca - of_words)
    skip = SkipKinds(
        SkipCoordinates(letters * positions, of_bases, length=appended_length, features=bases),
        SkipCoordinates(
            letters**k, min(letters**k, of_words), length=LENGTH_OF_WORDS * appended_length, features=words
        ),
    )
    width = learned_columns(context.n_components, skip.n_components, appended_pca)
    learned = SequenceCNN(n_components=width, channels=letters)
    return WithSkip(learned, skip) if skip.n_components else learned


def bases_by_position(x: Tensor, *, positions: int) -> Tensor:
    """The first positions of sequences, (B, C, L) to (B, C * positions); shorter ones are padded with zeros."""
    return F.pad(x[:, :, :positions], (0, max(0, positions - x.shape[2]))).flatten(1)


TIME_WIDTH = 64
PATCH = 4


class SequenceDenoiser(nn.Module):
    """A U-shaped convolutional network that predicts the letter of each position, designed for one CPU core.

    The input is a noised code (+1 for the letter, -1 for the others). A convolution at full resolution finds motifs;
    dilated residual convolutions run on patches of 4 positions, where the same work allows four times the channels; a
    last convolution at full resolution returns the logits of the letters. The time determines scale and shift before
    each convolution, and the projected condition is added there.

    The information in a noised letter itself is known. With ``x_t = a x_0 + b eps`` and x_0 a letter, Bayes' rule adds
    ``2 a x_t / b^2`` to the logits. So the probabilities of the letters are ``softmax(logits + k(t) x_t)``, and q is
    the expected code, from -1 to 1. The prediction is ``g(t) (x_t - q) + h(t) q``: noise, velocity and sample all have
    this form, and k, g, h are learned functions of the time. In trials this needed a third of the steps of a plain last
    layer for the same velocity loss. g and h are initialized with 0, so the network predicts 0 before training.

    Padding (columns of zeros) is set to zero before every convolution and in the prediction, so the prediction of a
    base does not depend on the length of the padding.

    Designed for "v" predictions and a learning rate of about 6e-3 at batch size 128.
    """

    def __init__(
        self,
        condition: int,
        *,
        letters: int = 4,
        width: int = 64,
        fine: int = 16,
        dilations: Sequence[int] = (1, 2, 4, 8),
    ) -> None:
        super().__init__()
        self.time = base.TimestepEmbedding(TIME_WIDTH)
        self.fine_condition = nn.Linear(condition, fine)
        self.motifs = nn.Conv1d(letters, fine, 9, padding=4)
        self.fine_modulate = base.Modulation(TIME_WIDTH, fine)
        self.condition = nn.Linear(condition, width)
        self.down = nn.Conv1d(fine, width, PATCH, stride=PATCH)
        self.modulate = nn.ModuleList(base.Modulation(TIME_WIDTH, width) for _ in dilations)
        self.dilated = nn.ModuleList(nn.Conv1d(width, width, 3, padding=gap, dilation=gap) for gap in dilations)
        self.up = nn.ConvTranspose1d(width, fine, PATCH, stride=PATCH)
        self.local = nn.Conv1d(fine, fine, 5, padding=2)
        self.logits = nn.Conv1d(fine, letters, 1)
        self.factors = base.zero_initialized(nn.Linear(TIME_WIDTH, 3))

    def forward(self, x: Tensor, t: Tensor, condition: Tensor) -> Tensor:
        """Predictions (B, C, L), 0 on padding, from noised latents, times (B,), 0 to 999, and conditions (B, c)."""
        real = real_positions(x)[:, None].to(x.dtype)
        time = self.time(t)
        log_k, g, h = self.factors(time)[:, :, None].split(1, dim=1)
        logits = self._logits(x, real, time, condition) + log_k.exp() * x
        q = (2 * logits.softmax(dim=1) - 1) * real
        return g * (x - q) + h * q

    def _logits(self, x: Tensor, real: Tensor, time: Tensor, condition: Tensor) -> Tensor:
        """Logits of the letters, (B, C, L), from the neighborhood of each position, the time and the condition."""
        length = x.shape[2]
        padding = (0, -length % PATCH)
        real_patches = F.pad(real, padding).unflatten(2, (-1, PATCH)).amax(dim=3)
        fine = F.silu(self.fine_modulate(self.motifs(x), time, self.fine_condition(condition))) * real
        projected = self.condition(condition)
        patches = self.down(F.pad(fine, padding)) + projected[:, :, None]
        for number, (modulate, dilated) in enumerate(zip(self.modulate, self.dilated, strict=True)):
            modulated = modulate(patches, time, projected if number else None)
            patches = patches + dilated(F.silu(modulated) * real_patches)
        fine = fine + self.up(F.silu(patches))[:, :, :length]
        fine = fine + self.local(F.silu(fine) * real)
        return self.logits(F.silu(fine))


@register(
    "features",
    "kmers",
    help="frequencies of k-mers, and learned windows of letters by place",
    modalities="dna",
    source="Coates, Lee and Ng 2011",
)
class KmersAndWindows(Features):
    """Frequencies of k-mers, and responses to a dictionary of windows, averaged over bins and their maximum.

    Sequences are scaled ones (B, C, L): one-hot letters, unknown ones as 1 / C each, zeros as padding. The dictionary
    is that of Coates, Lee and Ng (2011), of windows instead of patches. Bins divide each sequence, without its
    padding, into parts of equal length; windows that reach into the padding do not count.
    """

    k: Annotated[int, Bounds(ge=1, le=8)] = 4
    """Length of a k-mer; k-mers with an unknown letter are not counted."""
    window: Annotated[int, Bounds(ge=1)] = 8
    """Letters of a window."""
    centers: Annotated[int, Bounds(ge=2)] = 256
    """Centers of the dictionary."""
    bins: Annotated[int, Bounds(ge=1)] = 5
    """Parts of a sequence over which responses are averaged."""

    def set_up(self, context: base.PartContext) -> None:
        size = 1, self.window
        self.dictionary = PatchResponses(
            context.channels, size, patch=size, centers=self.centers, stride=1, regions=(1, 1)
        )
        self.n_features = context.channels**self.k + self.centers * (self.bins + 1)

    def fit(self, x: Tensor, generator: torch.Generator) -> None:
        x = x.float().cpu()
        width = self.dictionary.patch[1]
        x = F.pad(x, (0, max(0, width - x.shape[2])))
        windows = self._windows(x)
        each = -(-SAMPLED // len(x))
        left = (torch.rand(len(x), each, generator=generator) * windows[:, None]).long()
        patches = patches_at(x[:, :, None], torch.zeros_like(left), left, 1, width)
        self.dictionary.fit_to(patches, generator)

    def block_size(self, x: Tensor) -> int:
        return self.dictionary.block_size(x[:, :, None])

    def of_block(self, x: Tensor) -> Tensor:
        windows, padded = self._windows(x)[:, None], len(x) > 1
        if on_host(x) and not torch.compiler.is_compiling() and len(x):
            # Sequences of one block are often much shorter than the longest of all.
            longest = int(windows.max())
            x, padded = x[:, :, : longest + self.dictionary.patch[1] - 1], int(windows.min()) < longest
        responses = self.dictionary.maps(x[:, :, None])[:, :, 0].mT  # (B, places, centers), in order in memory
        place = torch.arange(responses.shape[1], device=x.device)
        number = torch.arange(self.bins, device=x.device)
        first, last = number * windows // self.bins, -(-(number + 1) * windows // self.bins)
        # Bins of fewer windows than bins overlap, as those of adaptive pooling.
        in_bin = ((place[:, None] >= first[:, None]) & (place[:, None] < last[:, None])).to(responses.dtype)
        means = (in_bin / in_bin.sum(1, keepdim=True)).mT.contiguous() @ responses
        largest = (responses * (place < windows)[..., None] if padded else responses).amax(1)
        return torch.cat([kmer_frequencies(x, self.k), means.flatten(1), largest], dim=1)

    def _windows(self, x: Tensor) -> Tensor:
        """Number of windows in each sequence without its padding, at least 1, (B,)."""
        length = real_positions(x).sum(1)
        return (length - self.dictionary.patch[1] + 1).clamp_min(1)


@register(
    "features",
    "kmers",
    help="frequencies of k-mers, and learned windows of letters by place",
    modalities="proteins",
    source="Coates, Lee and Ng 2011",
)
class ProteinKmers(KmersAndWindows):
    """`KmersAndWindows` of 20 letters, whose words are shorter; their frequencies; and autocovariances of properties.

    Properties of a letter are its coordinates on the leading axes of what BLOSUM62 substitutes for it, such as how much
    it avoids water. Their covariances between letters some places apart tell helices and charges without an alignment
    (Wold, Jonsson, Sjostrom, Sandberg and Rannar 1993).
    """

    k: Annotated[int, Bounds(ge=1, le=3)] = 2
    lags: Annotated[int, Bounds(ge=0)] = 8
    """Most places between two letters of a covariance; 0: without."""
    properties: Annotated[int, Bounds(ge=1, le=19)] = 5
    """Number of axes."""

    def set_up(self, context: base.PartContext) -> None:
        super().set_up(context)
        self.n_features += context.channels + self.lags * self.properties**2
        # A buffer, because the signs of axes differ between machines.
        self.axes = nn.Buffer(_axes_of_substitutions(self.properties))

    def of_block(self, x: Tensor) -> Tensor:
        real = real_positions(x)[:, None].to(x.dtype)
        number = real.sum(2).clamp_min(1)  # (B, 1)
        found = self.axes.to(x.dtype).T @ x
        found = (found - (found * real).sum(2, keepdim=True) / number[:, None]) * real
        parts = [super().of_block(x), x.sum(2) / number]
        for lag in range(1, self.lags + 1):
            pairs = F.pad(found, (0, lag))[:, :, lag:] @ found.mT
            parts.append(pairs.flatten(1) / (number - lag).clamp_min(1))
        return torch.cat(parts, dim=1)


def _axes_of_substitutions(number: int) -> Tensor:
    """Leading principal axes of the log odds of substitutions, times the roots of their variances, (20, number)."""
    assert AMINO_ACIDS.substitutions is not None and AMINO_ACIDS.frequencies is not None
    odds = np.log2(AMINO_ACIDS.substitutions / AMINO_ACIDS.frequencies)
    odds = (odds + odds.T) / 2
    values, axes = np.linalg.eigh(odds - odds.mean(0) - odds.mean(1, keepdims=True) + odds.mean())
    leading = np.argsort(-values)[:number]
    return torch.from_numpy(axes[:, leading] * np.sqrt(values[leading].clip(0))).float()


@register(
    "features",
    "kmers",
    help="frequencies of k-mers, and learned windows of letters by place",
    modalities="letters:",
    source="Coates, Lee and Ng 2011",
    named={name: name for name in ("window", "centers", "bins")},
)
class OwnKmers(KmersAndWindows):
    """`KmersAndWindows` of an own alphabet, whose words are as long as `word_length` says."""

    def set_up(self, context: base.PartContext) -> None:
        self.k = word_length(context.channels)
        super().set_up(context)
