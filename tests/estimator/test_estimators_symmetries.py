"""Rates of views that are "auto": chosen by the data, said, recorded, kept on loading, forced by a number."""

import numpy as np
import pytest

import viewsmith
from drawn_strokes import strokes
from viewsmith import CRLTAC, Contrastive, DiffAug, GenView, MetAug, PiNDA
from viewsmith.core.registry import entries
from viewsmith.data import load_dataset
from viewsmith.modalities import modality_of
from viewsmith.reports import ReportContent, render_report

TINY = {"epochs": 1, "batch_size": 32, "random_state": 0, "device": "cpu"}


def sequences(letters, n=120):
    """Random sequences with these frequencies of A, C, G and T."""
    return np.frombuffer(b"ACGT", np.uint8)[np.random.default_rng(2).choice(4, (n, 60), p=letters)]


def waves(n=400, backward=False, negative=False):
    """Recordings of a saw tooth with noise; half of them backward, half of them with the other sign."""
    rng = np.random.default_rng(3)
    saw = (np.arange(40) + rng.integers(0, 3, (n, 1))) % 20 / 10 - 0.2
    x = np.where(backward & (rng.random((n, 1)) < 0.5), saw[:, ::-1], saw)
    x = np.where(negative & (rng.random((n, 1)) < 0.5), -x, x)
    return (x + 0.1 * rng.normal(size=x.shape))[:, None].astype(np.float32)


@pytest.mark.parametrize(
    ("options", "rates"),
    [({}, (0, 0)), ({"backward": True}, (0.5, 0)), ({"negative": True}, (0, 0.5))],
    ids=["forward and positive", "backward too", "negative too"],
)
def test_recordings_are_reversed_or_change_their_sign_if_their_set_does(options, rates):
    model = Contrastive(**TINY, modality="series").fit(waves(**options))
    assert tuple(model.options_.view_options[name] for name in ("time_reversal", "sign_flip")) == rates
    few = Contrastive(**TINY, modality="series").fit(waves(40))
    assert few.options_.view_options == {"time_reversal": 0, "sign_flip": 0}
    assert few.facts_.symmetries["time-reversal"]["verdict"].startswith("time-reversal: off, not tested")


def test_rates_of_recordings_can_be_forced():
    x = waves()
    forced = Contrastive(**TINY, modality="series", view_options={"time_reversal": 0.25, "sign_flip": 0}).fit(x)
    assert forced.options_.view_options == {"time_reversal": 0.25, "sign_flip": 0} and not forced.facts_.symmetries


@pytest.mark.parametrize(
    ("x", "option", "transformation", "rate"),
    [
        (strokes(), "flip", "mirror", 0.0),
        (strokes(mirrored=True), "flip", "mirror", 0.5),
        (sequences([0.7, 0.1, 0.1, 0.1]), "strand", "reverse-complement", 0.0),
        (sequences([0.4, 0.1, 0.1, 0.4]), "strand", "reverse-complement", 0.5),
    ],
    ids=["one-sided strokes", "strokes of both sides", "one strand", "both strands"],
)
def test_the_rate_is_chosen_said_and_recorded(x, option, transformation, rate, capsys):
    model = Contrastive(**TINY, verbose=True).fit(x)
    assert model.options_.view_options[option] == rate
    test = model.summary_["symmetries"][transformation]
    assert test["rate"] == rate
    told, low = capsys.readouterr().err, test["told_apart_interval"][0]
    assert f"{transformation}: {'on' if rate else 'off'}, told apart in at least {low:.0%} of" in told
    assert f"distance ratio {test['distance_ratio']:.2f} (off from 55% and 1.3 on)" in told
    assert (test["distance_ratio"] >= 1.3 and low >= 0.55) == (rate == 0)


def test_a_number_forces_the_rate_and_equals_the_choice_of_it():
    chosen, off, on = (Contrastive(**TINY, **given).fit(strokes()) for given in ({}, {"flip": 0}, {"flip": 0.5}))
    assert not off.facts_.symmetries and on.options_.view_options["flip"] == 0.5
    np.testing.assert_array_equal(chosen.transform(strokes()), off.transform(strokes()))
    assert not np.array_equal(chosen.transform(strokes()), on.transform(strokes()))


def test_views_without_the_other_strand_keep_the_strand():
    x = sequences([0.7, 0.1, 0.1, 0.1])
    kept, read = (Contrastive(**TINY, strand=rate).fit(x).views(x[:20], 4) for rate in (0, 1))
    assert (kept == ord("A")).mean() > 0.5 and (read == ord("T")).mean() > 0.5


def test_a_loaded_model_keeps_the_choice(tmp_path):
    model = Contrastive(**TINY).fit(strokes(), run=tmp_path / "run")
    assert 'flip = "auto"' in (tmp_path / "run" / "config.toml").read_text()
    other = viewsmith.load(tmp_path / "run")
    assert other.options_.view_options == model.options_.view_options
    assert other.facts_.symmetries == model.facts_.symmetries
    np.testing.assert_array_equal(other.views(strokes()[:8], 2), model.views(strokes()[:8], 2))


@pytest.mark.parametrize(("count", "expected"), [(12, True), (4, False)])
def test_many_groups_are_held_out_whole(count, expected, monkeypatch):
    from viewsmith.estimator import resolve

    seen, original = [], resolve.symmetries
    monkeypatch.setattr(
        resolve, "symmetries", lambda *a, groups, **b: seen.append(groups) or original(*a, groups=groups, **b)
    )
    Contrastive(**TINY).fit(strokes(), groups=np.arange(120) % count)
    assert len(seen) == 1 and (seen[0] is not None) == expected


@pytest.mark.parametrize("x", [strokes(40), np.repeat(strokes(30), 3, axis=0)], ids=["few", "few different"])
def test_too_few_samples_keep_the_published_rate_and_say_so(x):
    model = Contrastive(**TINY).fit(x)
    assert model.options_.view_options["flip"] == 0.5
    verdict = model.summary_["symmetries"]["mirror"]["verdict"]
    assert "mirror: on, not tested:" in verdict and "expected at least 50" in verdict


def test_samples_that_a_transformation_does_not_change_keep_the_published_rate():
    columns = np.random.default_rng(0).integers(0, 256, (80, 8, 1), dtype=np.uint8).repeat(8, 2)
    assert Contrastive(**TINY).fit(columns).options_.view_options["flip"] == 0.5
    nothing = np.full((80, 40), ord("N"), np.uint8)
    assert Contrastive(**TINY).fit(nothing).options_.view_options["strand"] == 0.5


def test_published_presets_mirror_as_published():
    for estimator in (Contrastive, PiNDA, DiffAug, GenView, MetAug):
        assert estimator.presets["paper-images"]["flip"] == 0.5
    assert "flip" not in CRLTAC.presets["paper-images"]  # its views are crops


def test_every_declared_symmetry_is_an_option_and_a_transformation():
    declared = [(e, o, t) for e in entries("view maker") for o, t in e.tag("symmetry", {}).items()]
    images = {"simclr", "crop", "byol", "moco", "multicrop", "turns"}
    assert {e.name for e, _, _ in declared} == images | {"dna", "window", "scale"}
    for entry, option, (transformation, _) in declared:
        assert entry.options[option].default == "auto" or option in ("upside_down", "turn", "diagonal")
        assert all(transformation in modality_of(modality).transformations((8, 8)) for modality in entry.modalities)


def test_the_report_shows_transformed_samples_beside_what_the_test_has_shown(tmp_path):
    x = strokes()
    np.savez(tmp_path / "strokes.npz", X=x)
    data = load_dataset(tmp_path / "strokes.npz")
    model = Contrastive(**TINY).fit(x)
    gallery = model.figures(data)[-1]
    test = model.summary_["symmetries"]["mirror"]
    name, rate, told, ratio = gallery.tables[""][1]
    assert (gallery.title, name, rate) == ("Symmetries", "mirror", "0")
    assert told.startswith(f"{test['told_apart']:.2f} (") and ratio.startswith(f"{test['distance_ratio']:.2f} (")
    page = render_report(ReportContent(title="x", method="contrastive", figures=[gallery]))
    assert f"<td>{told}</td><td>{ratio}</td>" in page
    np.testing.assert_array_equal(gallery.data["views"][:, 0], gallery.data["samples"][:, :, ::-1])
    forced = Contrastive(**TINY, flip=0).fit(x).figures(data)
    assert [each.title for each in forced] == ["raw", "representation", "Views"]


def test_views_beside_the_data_are_logged_and_learned_ones_that_left_them_are_said():
    x = np.random.default_rng(0).normal(size=(120, 6)).astype(np.float32)
    near, far = (
        Contrastive(**TINY, view_maker="noise", noise_strength=strength).fit(x).metrics_[-1] for strength in (0.1, 9.0)
    )
    assert near["view_distance"] < 1.2 and far["view_distance"] > 3
    assert near["told_apart"] < 0.75 < far["told_apart"]
    assert "told_apart" not in Contrastive(**TINY).fit(x[:40]).metrics_[-1]  # too few samples
    method = PiNDA(**TINY).fit(x).method_
    line = (
        "the views have left the data: they are 3.1 times as far from other samples as samples are (told apart in 90%)"
    )
    assert any(each.startswith(line) for each in method.warnings([{"view_distance": 3.1, "told_apart": 0.9}]))
    assert not method.warnings([{"view_distance": 1.9, "told_apart": 1.0}])
