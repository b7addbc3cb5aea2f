"""CRL-TAC that starts from discovery: Q(T|x) and the steps against slow forms, objects found, what is recorded."""

import dataclasses
import types

import numpy as np
import pytest
import torch
from crl_tac_processes import M, batch, crl_tac, samples
from test_methods_crl_tac import slow_projections, steps

import viewsmith
from crl_tac_toys import overlap
from located_discs import noise, with_discs
from refusals import refusal
from slow_info_max import slow_sampled
from small_searches import smaller
from viewsmith import CRLTAC
from viewsmith.core import distributed
from viewsmith.core.tensors import derive_seed
from viewsmith.losses.info_max import entropy
from viewsmith.methods.crl_tac import building
from viewsmith.methods.crl_tac.figures import box_gallery
from viewsmith.methods.crl_tac.locations import SAME, SHARPNESS, KnownPlaces
from viewsmith.methods.discovery.image_parts import Part
from viewsmith.methods.discovery.images import PARTS
from viewsmith.modalities import modality_of

pytestmark = pytest.mark.usefixtures("small_searches")

VIEWS = torch.tensor([[top, left, 8.0, 8.0] for top in (0.0, 4.0, 8.0) for left in (0.0, 4.0)])
QUICK = {"epochs": 8, "batch_size": 32, "random_state": 0}


def test_the_distribution_of_known_places_against_a_loop():
    boxes = torch.tensor([[1.0, 1.0, 4.0, 6.0], [9.0, 0.0, 9.0, 4.0], [torch.nan] * 4])
    found = KnownPlaces(boxes, VIEWS)
    for row, box in enumerate(boxes[:2].tolist()):
        # A view of 8 x 8 around the middle of the box, within 16 x 12.
        middle = box[0] + box[2] / 2, box[1] + box[3] / 2
        corner = [min(max(0.0, m - 4), last) for m, last in zip(middle, (8.0, 4.0), strict=True)]
        each = [overlap((*corner, 8.0, 8.0), view) for view in VIEWS.tolist()]
        weights = np.exp(np.array(each) / SHARPNESS)
        np.testing.assert_allclose(found.q[row], weights / weights.sum(), atol=1e-3)
        assert found.here[row].tolist() == [value >= SAME for value in each]
    p = torch.full((2, 6), 1 / 6)
    q, known = found.for_rows(torch.tensor([2, 0]), p)
    assert known.tolist() == [False, True] and torch.equal(q[0], p[0]) and torch.equal(q[1], found.q[0].float())
    assert float(found.probability(torch.tensor([2, 0]), p)) == pytest.approx(float(found.here[0].float().mean()))
    assert float(found.probability(torch.tensor([2]), p[:1])) == 0


def places():
    """Known places of the samples of the tests but the first, among M views in a row."""
    views = torch.tensor([[0.0, 4.0 * i, 8.0, 8.0] for i in range(M)])
    boxes = torch.tensor([[torch.nan] * 4, *([0.0, float(i % 14), 8.0, 8.0] for i in range(20))])
    return KnownPlaces(boxes, views)


@pytest.mark.parametrize("step", ["exact", "sampled"])
def test_the_steps_with_known_places(step):
    known = places()
    options = {"places": known, "start_steps": 3, "encoder_step": step, "channel_step": step}
    x, method = samples(), crl_tac(**options, place_weight=0.7)
    without = crl_tac(encoder_step=step, channel_step=step)
    index = batch(x).index
    first, later = (dataclasses.replace(batch(x), step=number) for number in (2, 3))
    log_p = method.channel.log_p(x)
    q, has = known.for_rows(index, log_p.exp().detach())
    expected = torch.where(has, (q * log_p).sum(1), 0)
    loss, told = steps(method)["channel"].step(first)
    torch.testing.assert_close(loss, -expected)
    assert float(told["at_places"]) == pytest.approx(float(known.probability(index, log_p.detach().exp())))
    drawn = torch.multinomial(q, 3, True, generator=batch().generator)
    z = slow_projections(method, x).gather(1, drawn[..., None].expand(-1, -1, 4))
    torch.testing.assert_close(
        steps(method)["encoder"].step(first)[0], -slow_sampled(z, torch.ones_like(z[..., 0]), 3.0)
    )
    # Later the plain objective, and the weighted term.
    again = dataclasses.replace(later, generator=batch().generator)
    loss, plain = steps(method)["channel"].step(again)[0], steps(without)["channel"].step(batch(x))[0]
    torch.testing.assert_close(loss, plain - 0.7 * expected)
    torch.testing.assert_close(told["entropy"], entropy(log_p).mean())


@pytest.fixture(scope="module")
def trained(tmp_path_factory):
    """Images with discs, a model of them, and its run."""
    x, run = with_discs(50)[0], tmp_path_factory.mktemp("trained") / "run"
    with smaller():
        return x, CRLTAC(**QUICK).fit(x, run=run), run


def test_it_starts_at_the_objects_that_discovery_finds(trained):
    x, model, run = trained
    assert model.options_.start == "discovery" and model.options_.start_steps == 50
    assert "one kind of thing recurs" in model.facts_.discovered
    assert model.method_.channel.family.crop == 20
    assert model.metrics_[-1]["at_places"] > 1.5 * model.metrics_[0]["at_places"]
    loaded = viewsmith.load(run)
    assert np.array_equal(loaded.distribution(x), model.distribution(x))
    assert loaded.facts_.discovered == model.facts_.discovered


def test_a_resumed_training_has_the_same_places(trained, tmp_path):
    x, whole, _ = trained
    CRLTAC(**QUICK, minutes=1e-9).fit(x, run=tmp_path / "cut")
    resumed = CRLTAC(**QUICK).fit(x, run=tmp_path / "cut", resume=True)
    assert np.array_equal(resumed.distribution(x), whole.distribution(x))


def test_without_anything_that_recurs_it_starts_as_published():
    x = noise(50)
    model = CRLTAC(**QUICK | {"epochs": 1}).fit(x)
    none = CRLTAC(**QUICK | {"epochs": 1}, start="none").fit(x)
    assert model.options_.start == "none" and model.facts_.discovered.startswith("nothing recurs: ")
    assert np.array_equal(model.distribution(x), none.distribution(x))
    assert "at_places" not in model.metrics_[-1] and none.facts_.discovered == ""


def test_places_that_are_not_clear_are_no_start(monkeypatch):
    part = Part(window=5, windows=(), cells=(), posterior=0.2, consistency=0.9, objective=1.0, boxed=False)

    def fit(self, X):
        self.parts, self.tried = [part], [[part]]

    monkeypatch.setattr(building.ImageSearch, "fit", fit)
    model = CRLTAC(**QUICK | {"epochs": 1}).fit(noise(50))
    assert model.options_.start == "none"
    assert model.facts_.discovered.startswith("no place is clear (probability at least 0.95): one kind of thing")


def test_other_places_than_those_found_are_said():
    method = crl_tac(places=places(), place_weight=0.0)
    line = "P(T|x) is not at the places that discovery found: 20% of its probability is there"
    assert any(each.startswith(line) for each in method.warnings([{"effective": 3.0, "at_places": 0.2}]))
    assert not method.warnings([{"effective": 3.0, "at_places": 0.6}])


def test_discovery_as_the_start_of_other_samples():
    rows = np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32)
    assert "start is 'discovery', which is for crops of images" in refusal(CRLTAC(start="discovery").fit, rows)
    small = np.random.default_rng(0).integers(0, 255, (40, 24, 24), dtype=np.uint8)
    assert "the smallest image has 24 pixels" in refusal(CRLTAC(start="discovery").fit, small)


@pytest.mark.parametrize("kept", [0.3, 0.9])
def test_the_report_says_that_discovery_is_enough_for_places(trained, monkeypatch, kept):
    x, model, _ = trained
    monkeypatch.setattr(model, "metrics_", [{"at_places": kept}])
    caption = box_gallery(model, x, 4).caption
    assert ("`viewsmith discover` alone gives them" in caption) == (kept > 0.5)


class Found:
    """Takes the place of a search: the boxes of three of the images that it was given."""

    parts = (types.SimpleNamespace(boxed=True, consistency=1.0),)
    q = (0.01, 0.1, 0.11)

    def __init__(self, seed):
        pass

    def fit(self, images):
        self.images = images

    def describe(self):
        return "found"

    def candidates(self, images):
        found = [(i, 0, 3 + i, 5, 33 + i, 25, 1.0, q, False) for i, q in zip((0, 4, 2), self.q, strict=True)]
        return np.array(found, PARTS)


def test_places_are_the_boxes_of_sure_parts_in_the_rows_that_were_searched(monkeypatch):
    monkeypatch.setattr(building, "ImageSearch", Found)
    monkeypatch.setattr(building, "PLACED", 6)
    rows = np.zeros((200, 64, 80), np.uint8)
    data = types.SimpleNamespace(
        device="cpu", row_shape=rows.shape[1:], rows=rows, seed=0, modality=modality_of("images")
    )
    options = types.SimpleNamespace(start="auto", channel="learned", family="auto", encoder="crl-cnn", minutes=None)
    monkeypatch.setattr(building, "has_crops", lambda *_: True)
    monkeypatch.setattr(building, "is_custom", lambda *_: False)
    places, said = building.discovered(options, data)
    searched = np.sort(np.random.default_rng(derive_seed(0, "discovery")).permutation(200)[:6])
    known = (~places.boxes.isnan()).all(1).nonzero()[:, 0].tolist()
    assert known == [searched[0], searched[4]] and said == "found"  # the third is not sure
    assert places.boxes[known].tolist() == [[5, 3, 20, 30], [5, 7, 20, 30]]  # top, left, height, width
    assert places.side == 28  # the longer side, in steps of 4
    monkeypatch.setattr(Found, "q", (0.2, 0.2, 0.2))
    assert building.discovered(options, data) == (None, "no place is clear (q at most 0.1): found")


def test_discovery_takes_a_part_of_the_time_at_most(monkeypatch, capsys):
    monkeypatch.setattr(distributed, "LEAST_LIMIT", 0.0)
    x = noise(40, 48)
    with pytest.warns(UserWarning, match="training ended early|nothing was trained"):
        model = CRLTAC(**QUICK, start="discovery", minutes=1e-9).fit(x)
    assert model.facts_.discovered == "left out: it took longer than 30% of the time (minutes)"
    assert model.fitted_["start"] == "none"
