"""`Contrastive(closed_form=True)`: columns of the closed form beside those that are trained."""

import numpy as np
import pytest

import viewsmith
from viewsmith import Contrastive, LinearContrast
from viewsmith.core.tensors import load_tensors
from viewsmith.workflows.export import export_encoder

SHORT = {"epochs": 2, "batch_size": 20, "random_state": 0}


@pytest.fixture(autouse=True)
def few_patches(monkeypatch):
    """Dictionaries that are fitted to fewer patches, in less time."""
    monkeypatch.setattr("viewsmith.networks.features.SAMPLED", 1_000)


KINDS = {
    "images": np.random.default_rng(0).integers(0, 256, (40, 12, 10, 3), dtype=np.uint8),
    "series": np.random.default_rng(0).normal(size=(40, 2, 30)).astype(np.float32),
    "vectors": np.random.default_rng(0).normal(size=(40, 6)).astype(np.float32),
    "dna": ["".join(np.random.default_rng(i).choice(list("ACGT"), 30)) for i in range(40)],
}


@pytest.mark.parametrize("kind", KINDS)
def test_columns_of_both_are_side_by_side_and_saved(kind, tmp_path):
    x = KINDS[kind]
    alone = LinearContrast(random_state=0, modality=kind).fit(x)
    both = Contrastive(**SHORT, modality=kind, closed_form=True).fit(x)
    h, closed = both.transform(x), alone.transform(x)
    width = closed.shape[1]
    assert h.shape == (40, 256 + width) and len(both.get_feature_names_out()) == 256 + width
    trained, appended = h[:, :256], h[:, 256:]
    np.testing.assert_allclose(appended, float(both.method_.length) * closed, rtol=1e-3, atol=1e-3)
    ratio = (appended**2).sum() / (trained**2).sum()
    assert 2.9 < ratio < 3.1
    assert both.summary_["closed_form"] == alone.summary_["chosen"]
    both.save(tmp_path / "run")
    assert np.array_equal(viewsmith.load(tmp_path / "run").transform(x), h)


def test_trained_columns_are_those_of_a_training_without_it():
    x = KINDS["images"]
    both = Contrastive(**SHORT, closed_form=True).fit(x)
    plain = Contrastive(**SHORT, encoder_options={"appended_pca": 0}).fit(x)
    assert np.array_equal(both.transform(x)[:, :256], plain.transform(x))
    assert np.array_equal(both.transform(x, output="projection"), plain.transform(x, output="projection"))
    assert [row["feature_std"] for row in both.metrics_] == [row["feature_std"] for row in plain.metrics_]
    start = both.untrained(x).transform(x)
    assert start.shape == both.transform(x).shape  # the training starts from the columns of the closed form


def test_a_training_that_is_resumed_equals_one_that_is_not(tmp_path):
    x = KINDS["images"]
    whole = Contrastive(**SHORT, closed_form=True).fit(x, run=tmp_path / "whole")
    options = SHORT | {"closed_form": True, "minutes": 1e-9}
    for _ in range(9):
        part = Contrastive(**options).fit(x, run=tmp_path / "parts", resume=(tmp_path / "parts").exists())
        options["minutes"] = None
        if part.status_ == "finished":
            break
    assert np.array_equal(part.transform(x), whole.transform(x))


def test_an_export_says_what_it_lacks(tmp_path):
    model = Contrastive(**SHORT, closed_form=True).fit(KINDS["images"])
    hint = export_encoder(model, tmp_path / "encoder.safetensors", "safetensors")
    assert hint.endswith("the columns of the closed form, which transform appends, are not written")
    assert not any("closed" in name for name in load_tensors(tmp_path / "encoder.safetensors"))
