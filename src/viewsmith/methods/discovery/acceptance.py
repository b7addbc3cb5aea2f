"""Does a kind recur? One rule for what is found in recordings, letters and images.

A candidate is sought in one part of the samples, and scores the others: the score of a sample is that of its best
place. Each sample has its own surrogates, in which nothing recurs but which are like it otherwise (random phases). If
nothing recurs, a sample and its surrogates are exchangeable, whatever the candidate is, since the candidate was found
in others. So the rank of the sample among its surrogates is uniform, and the mean rank of all samples says how surely
something recurs. The mean difference in nats says how much: real data are not quite like any surrogate.

    kept if  p(mean rank) <= ALPHA / candidates  and  mean difference >= LEAST

In images a score would say little: fragments of things, too, are unlike random phases. There a sample has the share of
the part that lies at one place (`viewsmith.methods.discovery.image_parts`), held out as well, above what a box as large
holds by chance: smooth images have large bright regions, whatever their phases are. Surrogates, images with random
phases, have that of the same search. The difference is of the log odds of mean shares, and p that of `LEAST` or less.

Of several candidates the surest one is taken, and of equally sure ones that with the largest mean difference; in images
the one whose places are clearest beside those in random phases.
"""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy.special import logit
from scipy.stats import norm

from viewsmith.methods.discovery.contrast import folds

ALPHA = 0.01
"""Largest probability, over all candidates that were tried, that something is said to recur where nothing does."""

LEAST = 0.5
"""Nats by which the score of a sample has to exceed that of its own surrogates, in the mean of the samples; in images
the log odds that a part lies at one place those of random phases, surely."""

SURROGATES = 9
"""Surrogates of each sample: with more, the mean rank is a little surer, and takes longer."""

SEARCHED = 200
"""Samples that are searched in all parts together: few samples are cut into more parts, two to ten, because what recurs
in few is found only in nearly all of them."""


def parts_of(n: int, seed: int) -> list[np.ndarray]:
    """For each part of n samples, those in which a candidate is sought, bool (n,); all others are scored by it."""
    part = folds(n, seed, int(np.clip(SEARCHED // n, 2, 10)))
    return [part != own for own in range(part.max() + 1)]


@dataclass(frozen=True)
class Evidence:
    """How surely, and by how much, a candidate scores higher in samples than in their surrogates."""

    gain: float = 0.0  # mean difference, in nats
    p: float = 1.0  # of one candidate
    of_odds: bool = False

    @classmethod
    def of(cls, scores: np.ndarray) -> "Evidence":
        """Of scores (1 + k, n): of each of n samples, held out, and of its k surrogates; those that have no place are
        left out."""
        scores = scores[:, np.isfinite(scores).all(0)]
        others, n = len(scores) - 1, scores.shape[1]
        if not n:
            return cls()
        rank = (scores[1:] < scores[0]).sum(0) + (scores[1:] == scores[0]).sum(0) / 2
        # Mean and variance of a rank that is 0 ... k with equal probability.
        z = (rank.mean() - others / 2) * np.sqrt(n * 12 / ((others + 1) ** 2 - 1))
        return cls(float((scores[0] - scores[1:].mean(0)).mean()), float(norm.sf(z)))

    @classmethod
    def of_places(cls, shares: np.ndarray, nothing: np.ndarray) -> "Evidence":
        """Of the share of the part that lies at one place, in images (n,) and in those with random phases (m,)."""
        if not (np.isfinite(shares).all() and np.isfinite(nothing).all()):
            return cls(of_odds=True)
        odds, variance = [], 0.0
        for each in (shares, nothing):
            more = np.append(each, (0, 1))  # one image more that has it, and one that has not: few are never sure
            mean = more.mean()
            odds.append(float(logit(mean)))
            variance += more.var() / len(more) / (mean * (1 - mean)) ** 2
        gain = odds[0] - odds[1]
        return cls(gain, float(norm.sf((gain - LEAST) / np.sqrt(variance))), True)

    def recurs(self, tried: int) -> bool:
        """Whether something recurs, if it is one of so many candidates."""
        return self.gain >= LEAST and self.p * tried <= ALPHA

    def why(self, tried: int) -> str:
        """What was found and expected of one of so many candidates, in plain words."""
        scores = "scores {:.2f} nats more where it was not sought than in random samples like these"
        odds = "lies at one place with log odds {:.2f} above those in random images with the same spectra"
        return (
            f"{(odds if self.of_odds else scores).format(self.gain)} (p = {min(1.0, self.p * tried):.2g}); expected at "
            f"least {LEAST:g}, with p up to {ALPHA:g}"
        )


def choose(tried: Sequence[Any]) -> Any | None:
    """The surest candidate of those that recur by their `evidence`; None if nothing recurs."""
    kept = [each for each in tried if each.evidence.recurs(len(tried))]
    return max(kept, key=lambda each: (-each.evidence.p, each.evidence.gain), default=None)
