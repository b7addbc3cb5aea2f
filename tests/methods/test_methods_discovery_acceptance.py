"""The rule of acceptance: rank among surrogates against a loop, its false alarms, the choice among candidates."""

from types import SimpleNamespace

import numpy as np
import pytest
from scipy.stats import norm

from viewsmith.methods.discovery.acceptance import ALPHA, LEAST, SURROGATES, Evidence, choose, parts_of


def test_evidence_is_the_mean_rank_and_difference_as_by_a_loop():
    scores = np.random.default_rng(0).normal(size=(1 + SURROGATES, 20)).round(1)  # some are equal
    scores[3, 4] = -np.inf  # no place
    kept = [i for i in range(20) if i != 4]
    ranks = [sum((own > other) + 0.5 * (own == other) for other in rest) for own, *rest in scores.T[kept]]
    spread = np.std(range(1 + SURROGATES)) / np.sqrt(len(kept))
    evidence = Evidence.of(scores)
    assert evidence.p == pytest.approx(norm.sf((np.mean(ranks) - SURROGATES / 2) / spread))
    assert evidence.gain == pytest.approx(np.mean([own - np.mean(rest) for own, *rest in scores.T[kept]]))
    assert Evidence.of(np.full((4, 3), -np.inf)) == Evidence()


@pytest.mark.parametrize(("n", "parts"), [(4, 4), (20, 10), (50, 4), (100, 2), (1000, 2)])
def test_each_sample_is_scored_once_by_what_was_sought_in_others(n, parts):
    sought = np.array(parts_of(n, 0))
    assert sought.shape == (parts, n) and ((~sought).sum(0) == 1).all()


@pytest.mark.parametrize("n", [4, 10, 100])
def test_false_alarms_are_at_most_as_many_as_said(n):
    rng = np.random.default_rng(n)
    p = np.array([Evidence.of(rng.gumbel(size=(1 + SURROGATES, n))).p for _ in range(4000)])
    for alpha in (ALPHA, 0.05):
        assert (p <= alpha).mean() <= alpha + 3 * np.sqrt(alpha / 4000)


def test_of_candidates_that_recur_the_surest_is_chosen():
    def candidate(gain, p):
        return SimpleNamespace(evidence=Evidence(gain, p))

    best = candidate(20.0, ALPHA / 40)
    assert choose([candidate(5.0, ALPHA / 40), best, candidate(30.0, ALPHA / 4), candidate(99.0, ALPHA / 2)]) is best
    assert choose([candidate(99.0, ALPHA / 3), candidate(9.0, ALPHA / 4), candidate(1.0, 1.0), best]) is best
    assert choose([candidate(LEAST - 0.01, 0.0), candidate(9.0, 1.0)]) is None
    assert "expected at least" in candidate(0.1, 0.2).evidence.why(4)


def test_evidence_of_places_is_how_surely_log_odds_differ():
    rng = np.random.default_rng(0)
    shares, nothing = rng.beta(3, 2, 60), rng.beta(2, 4, 40)
    evidence = Evidence.of_places(shares, nothing)
    means = [[each[i].mean() for i in rng.integers(0, len(each), (4000, len(each)))] for each in (shares, nothing)]
    drawn = np.log(np.divide(means, np.subtract(1, means)))
    assert evidence.gain == pytest.approx((drawn[0] - drawn[1]).mean(), abs=0.08)
    assert norm.isf(evidence.p) == pytest.approx((evidence.gain - LEAST) / (drawn[0] - drawn[1]).std(), rel=0.2)
    assert evidence.recurs(4) and not Evidence.of_places(nothing, nothing).recurs(1)
    assert not Evidence.of_places(np.full(9, np.nan), nothing).recurs(1)
    few = Evidence.of_places(np.ones(8), nothing)
    assert few.gain > 2 * LEAST and not few.recurs(4)  # so few images may do so by chance
    assert "lies at one place with log odds" in few.why(4) and "expected at least 0.5," in few.why(4)


def test_of_many_candidates_one_has_to_be_surer():
    evidence = Evidence(gain=1.0, p=0.005)
    assert evidence.recurs(1) and evidence.recurs(2) and not evidence.recurs(3)
    assert not Evidence(gain=0.4, p=0.005).recurs(1)
