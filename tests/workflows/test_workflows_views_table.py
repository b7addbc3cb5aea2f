"""The table of views: what it says of views that help and harm, every kind of data, slow forms, bad input."""

import math

import numpy as np
import pytest
import torch

from cases import slow
from drawn_strokes import strokes
from refusals import refusal
from viewsmith.core.registry import entries
from viewsmith.evaluation.symmetries import LEAST, FeatureSpace
from viewsmith.modalities import modality_of
from viewsmith.networks.features import Features
from viewsmith.workflows import views_table as module
from viewsmith.workflows.views_table import N_VIEWS, _by_groups, affordable, views_table


def stains(n, seed=0):
    """Images of discs whose class is the brightness of one of two stains; they lie anywhere, turned anyhow."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 3, n)
    rows, columns = np.mgrid[:12, :12]
    places = rng.integers(4, 8, (n, 2, 1, 1))
    disc = (rows - places[:, 0]) ** 2 + (columns - places[:, 1]) ** 2 < 9
    x = rng.integers(0, 20, (n, 12, 12, 3))
    x[..., 1] += disc * (40 + 60 * y + rng.integers(-15, 15, n))[:, None, None]
    x[..., 0] += disc * rng.integers(60, 200, n)[:, None, None]
    return x.astype(np.uint8), y


def samples(modality, n=60):
    rng = np.random.default_rng(2)
    y = rng.integers(0, 2, n)
    if modality == "images":
        return stains(n)
    if modality == "dna":
        return np.frombuffer(b"ACGT", np.uint8)[rng.choice(4, (n, 40), p=(0.1, 0.2, 0.3, 0.4))], y
    if modality == "series":
        return (np.sin(np.arange(40) * (0.2 + 0.2 * y[:, None, None])) + rng.normal(size=(n, 2, 40))).astype("f4"), y
    return (rng.normal(size=(n, 6)) + 2 * y[:, None]).astype("f4"), y


def row_of(table, use, view, setting=""):
    (found,) = [row for row in table if (row.use, row.view) == (use, view) and row.setting.startswith(setting)]
    return found


def test_whole_groups_are_held_out():
    order, groups = np.random.default_rng(0).permutation(90), np.repeat(list("abcdef"), 15)
    train, scored = _by_groups(order, groups, 0)
    assert len(train) == 60 and len(np.unique(groups[scored])) == 2
    assert not {*groups[train]} & {*groups[scored]} and sorted([*train, *scored]) == list(range(90))
    x, y = samples("vectors")
    table = views_table(x, y, views=["noise"], uses=["alone"], groups=np.arange(len(x)) % 4)
    assert (table.samples, table.scored) == (45, 15)
    assert "have the group 0" in refusal(views_table, x, y, groups=np.zeros(len(x), int))


def test_gain_destroys_what_a_stain_measures_and_turns_do_not():
    table = views_table(*stains(150), views=["gain", "turns"], uses=["alone"], seed=0)
    assert table.labels and table.samples == 100 and table.scored == 50
    gain, turns = (
        row_of(table, "alone", "gain", "gain_strength=0.3"),
        row_of(table, "alone", "turns", "flip=0.5, upside_down=0.5, turn=0.5, diagonal"),
    )
    assert gain.linear_gain < -0.1 < turns.linear_gain and gain.knn < turns.knn
    assert gain.knn_gain == pytest.approx(gain.knn - row_of(table, "features", "features").knn)
    assert 0 < gain.knn_error < 0.1 and 0 < gain.ratio_error < gain.ratio
    assert row_of(table, "alone", "gain", "gain_strength=0.1").moved < gain.moved


def test_mirrors_leave_a_set_without_that_symmetry():
    table = views_table(strokes(200), views=["turns"], uses=["alone"])
    ratios = {row.setting: row.ratio for row in table if row.use == "alone"}
    assert ratios["flip=0.5"] > 1.25 and ratios["upside_down=0.5"] > 1.25
    assert ratios["flip=0.5, upside_down=0.5, turn=0.5"] > 1.2
    assert not table.labels and all(math.isnan(row.knn) for row in table)


@pytest.mark.parametrize("modality", [slow("images"), "dna", slow("series"), "vectors"])
def test_every_kind_of_data_has_a_table(modality):
    x, y = samples(modality)
    table = views_table(x, y, modality=modality, seed=1)
    graded = {entry.name for entry in entries("view maker", modality) if entry.tag("strengths")}
    assert {row.view for row in table if row.use == "alone"} == graded
    assert {row.use for row in table} >= {"features", "set", "alone", "added"}
    judged = [row for row in table if not row.note]
    assert len(judged) > len(table) / 2
    for row in judged:
        assert 0 <= row.knn <= 1 and 0 <= row.linear <= 1 and row.ratio >= 0
        if row.use != "features":
            assert np.isfinite([row.moved, row.correlation, row.columns, row.nats, row.knn_error]).all(), row
            assert row.correlation < 1 and 0 <= row.columns <= 256
    assert max(row.columns for row in judged if row.use == "alone") > 2  # of views that change little
    again = views_table(x, y, modality=modality, seed=1, views=[judged[-1].view])
    assert {(r.use, r.setting): (r.ratio, r.knn, r.nats) for r in again}.items() <= {
        (r.use, r.setting): (r.ratio, r.knn, r.nats) for r in table if r.view in (judged[-1].view, again[1].view)
    }.items() | {("features", ""): (again[0].ratio, again[0].knn, again[0].nats)}.items()


@pytest.mark.slow
def test_parts_of_the_set_are_left_out_and_others_are_added():
    x, _ = samples("series")
    table = views_table(x, modality="series", uses=["left out", "added"])
    assert table[1].use == "set" and table[1].view == "window+jitter+scale"
    assert [row.view for row in table if row.use == "left out"] == ["window", "jitter", "scale"]
    added = {(row.view, row.setting) for row in table if row.use == "added"}
    assert ("channel-mask", "channel_mask_rate=0.2") in added and ("window", "window_minimum=0.4") in added
    assert not any(row.use == "alone" for row in table)
    images = views_table(strokes(60), uses=["left out"])
    assert [row.view for row in images if row.use == "left out"] == ["crop", "turns", "light, color", "gray"]
    one = views_table(x, modality="series", base="jitter", views=["jitter", "scale"])
    assert [(row.use, row.view) for row in one if row.use in ("set", "left out")] == [("set", "jitter")]


def test_views_that_change_nothing_have_a_note_with_the_reason():
    table = views_table(strokes(60), views=["color", "gray"], uses=["alone"])
    assert [row.view for row in table if "change nothing that the features see" in row.note] == ["color"] * 2 + ["gray"]
    assert "change nothing" in table.cells()[-1][1] and len(table.cells()[-1]) == 2
    oblong = views_table(np.random.default_rng(0).integers(0, 255, (40, 10, 14), dtype=np.uint8), views=["turns"])
    assert "quarter turns need square images" in row_of(oblong, "alone", "turns", "turn=0.5").note


def test_numbers_have_their_own_scores():
    x, _ = samples("vectors", 600)
    table = views_table(x, x[:, 0] + 0.1 * np.random.default_rng(0).normal(size=len(x)), views=["noise"], uses=[])
    assert 0.5 < row_of(table, "features", "features").linear <= 1


def test_samples_without_a_label_are_left_out():
    x, y = samples("vectors", 90)
    y = np.where(np.arange(90) % 3 == 0, -1, y)
    table = views_table(x, y, views=["noise"], uses=["alone"])
    assert (table.samples, table.scored) == (40, 20)


class Plain(Features):
    """The values themselves, and how many samples were seen."""

    def __init__(self, width):
        super().__init__()
        self.n_features, self.seen = width, 0

    def of_block(self, x):
        self.seen += len(x)
        return x


def test_the_space_against_plain_formulas():
    x = torch.randn(40, 5, generator=torch.Generator().manual_seed(0)) * torch.tensor([1.0, 2.0, 1.0, 1e-5, 0.0])
    space = FeatureSpace(Plain(5), x)
    deviation = x.std(0, correction=0)
    floor = LEAST * deviation[deviation > 0].median()
    expected = (x - x.mean(0)) / torch.tensor([max(float(each), float(floor)) for each in deviation])
    torch.testing.assert_close(space.standard, expected)
    # All components: distances are those of the standardized features.
    ours, theirs = (torch.cdist(z, z) for z in (torch.from_numpy(space.coordinates), expected.double()))
    torch.testing.assert_close(ours, theirs, atol=1e-4, rtol=1e-4)
    few = FeatureSpace(Plain(90), torch.randn(80, 90, generator=torch.Generator().manual_seed(1)))
    values = np.linalg.svd(few.standard.numpy(), compute_uv=False)[:64]
    np.testing.assert_allclose(np.linalg.norm(few.coordinates, axis=0), values, rtol=1e-3)


def test_samples_themselves_are_not_moved():
    x, _ = samples("vectors", 40)
    table = views_table(x, views=["noise"], uses=["alone"])
    own = row_of(table, "features", "features")
    assert own.ratio == 1 and own.moved == 0


def test_features_of_mirror_images_are_computed_once(monkeypatch):
    x, y = samples("images", 90)
    given = {"views": ["light", "gain"], "uses": ["added"], "samples": 40, "base": "simclr"}
    table, seen, standardized = views_table(x, y, **given), [], FeatureSpace.standardized
    monkeypatch.setattr(FeatureSpace, "standardized", lambda self, x: seen.append(len(x)) or standardized(self, x))
    kept = views_table(x, y, **given)
    monkeypatch.setattr(module, "KEPT", 0)
    computed = len(seen)
    again = views_table(x, y, **given)
    assert len(seen) - computed > computed
    for others in (kept, again):
        assert others.frame().drop(columns="seconds").equals(table.frame().drop(columns="seconds"))


def test_large_images_are_judged_as_smaller_ones():
    x = np.repeat(np.repeat(samples("images")[0], 22, 1), 22, 2)  # 264 pixels, shrunk to 132 first
    table = views_table(x, views=["turns", "defocus"], uses=["alone"], samples=30)
    assert all(math.isfinite(row.ratio) for row in table)  # also of defocus, in pixels of the images as they are


def test_fewer_samples_where_features_take_long(monkeypatch):
    clock = iter((0.0, 0.1))
    monkeypatch.setattr("viewsmith.workflows.views_table.time.process_time", lambda: next(clock))
    # A hundredth of a second for each of ten samples; 12 of 20 seconds are for features.
    assert affordable(Plain(2), torch.zeros(10, 2), 1000, 0, 20.0) == 250
    assert 0.01 * N_VIEWS * 250 <= 12 < 0.01 * N_VIEWS * 500
    clock = iter((0.0, 0.001))
    assert affordable(Plain(2), torch.zeros(10, 2), 300, 100, 20.0) == 300
    clock = iter((0.0, 100.0))
    assert affordable(Plain(2), torch.zeros(10, 2), 30, 0, 20.0) == 30


@pytest.mark.parametrize(
    ("given", "line"),
    [
        ({"views": ["nois"]}, "unknown view maker 'nois'"),
        ({"base": "nothing"}, "unknown view maker 'nothing'"),
        ({"seconds": 0}, "seconds is 0, expected a number above 0"),
        ({"samples": 5}, "samples is 5, expected at least 20"),
        ({"uses": ["with"]}, "uses has 'with', expected some of alone, left out, added"),
        ({"y": np.zeros(60, int)}, "all train rows have the label 0"),
        ({"y": np.zeros(7, int)}, "y has shape (7,), expected one label of each of 60 samples"),
    ],
)
def test_what_cannot_be_judged(given, line):
    assert line in refusal(views_table, samples("vectors")[0], **given)


def test_too_few_samples_and_kinds_without_features(monkeypatch):
    assert "12 samples whose views are drawn, expected at least 20" in refusal(views_table, samples("vectors", 12)[0])
    monkeypatch.setattr(type(modality_of("vectors")), "default_features", "")
    assert "vectors have no fixed features" in refusal(views_table, samples("vectors")[0])


def test_views_that_cannot_be_judged_say_why():
    table = views_table(samples("vectors")[0], views=["adversarial"])
    assert "depend on a loss" in row_of(table, "alone", "adversarial").note


def test_a_notebook_shows_the_table():
    page = views_table(samples("vectors")[0], views=["noise"])._repr_html_()
    assert "<strong>Views</strong>" in page and "noise_strength=0.25" in page and "ratio" in page
