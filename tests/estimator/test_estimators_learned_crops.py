"""Methods whose views are drawn from a trained channel: what represents a sample."""

import numpy as np
import pytest
import torch

import viewsmith
from cases import slow
from crl_tac_toys import DATA, TINY, images
from viewsmith import CRLTAC, Contrastive, MetAug, PiNDA

OPTIONS = {"epochs": 1, "batch_size": 8, "n_components": 8, "random_state": 0, "framework": "simclr"}


def whole(model, x):
    """Representations of samples themselves."""
    with torch.no_grad():
        return model.method_.framework.represent(model.samples(x)[: len(x)]).numpy()


@pytest.mark.parametrize("cls", [slow(Contrastive), PiNDA, slow(MetAug)])
def test_most_probable_crops_of_large_images(cls, tmp_path):
    x = images(shape=(48, 44))
    teacher = CRLTAC(**TINY | {"epochs": 6}).fit(x, run=tmp_path / "channel")
    model = cls(**OPTIONS, encoder="cnn", view_maker=f"channel:{tmp_path / 'channel'}").fit(x)
    samples, found, framework = model.samples(x), model.transform(x), model.method_.framework
    family = teacher.method_.channel.family
    for i, p in enumerate(teacher.distribution(x)):
        views = [family.take(samples[i : i + 1], torch.tensor([[t]]))[0] for t in p.argsort()[-8:]]
        with torch.no_grad():
            expected = torch.stack([framework.represent(view)[0] for view in views]).mean(dim=0)
        np.testing.assert_allclose(found[i], expected, rtol=1e-4, atol=1e-5)
    assert not np.allclose(found, whole(model, x), atol=1e-3)
    model.save(tmp_path / "run")
    assert np.array_equal(viewsmith.load(tmp_path / "run").transform(x), found)


@pytest.mark.parametrize("modality", DATA)
def test_views_that_show_most_of_a_sample(modality, tmp_path):
    x = DATA[modality]()
    CRLTAC(**TINY).fit(x, run=tmp_path / "channel")
    model = Contrastive(**OPTIONS, hidden=(8,), view_maker=f"channel:{tmp_path / 'channel'}").fit(x)
    np.testing.assert_allclose(model.transform(x), whole(model, x), rtol=1e-5, atol=1e-6)


def test_crops_of_equal_probability(tmp_path):
    x = images(shape=(48, 44))
    CRLTAC(**TINY, channel="uniform").fit(x, run=tmp_path / "uniform")
    model = Contrastive(**OPTIONS, encoder="cnn", view_maker=f"channel:{tmp_path / 'uniform'}").fit(x)
    np.testing.assert_allclose(model.transform(x), whole(model, x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(("side", "crop", "stride", "encoder"), [(32, 20, 4, "crl-cnn"), (12, 9, 1, "cnn")])
@pytest.mark.parametrize("output", ["representation", "projection"])
def test_grid_crop_has_the_encoder_and_the_inference_of_crl_tac(side, crop, stride, encoder, output, monkeypatch):
    x = images(shape=(32, 32))[:, 4 : 4 + side, 8 : 8 + side] if side < 28 else images(shape=(side, side))
    model = Contrastive(epochs=1, batch_size=8, random_state=0, view_maker="grid-crop").fit(x)
    assert model.fitted_["encoder"] == CRLTAC(**TINY | {"n_components": 200}).fit(x).fitted_["encoder"] == encoder
    framework, samples, found = model.method_.framework, model.samples(x), model.transform(x, output=output)
    corners = range(0, side - crop + 1, stride)
    with torch.no_grad():
        crops = [samples[:2][:, :, i : i + crop, j : j + crop] for i in corners for j in corners]
        h = torch.stack([framework.encoder(each) for each in crops])
        expected = h.mean(dim=0) if output == "representation" else framework.head(h if encoder == "cnn" else h.mean(0))
        expected = expected if expected.ndim == 2 else expected.mean(dim=0)
    np.testing.assert_allclose(found[:2], expected, rtol=1e-3, atol=1e-5)
    monkeypatch.setattr("viewsmith.views.base.REPRESENTED_VIEWS", 1)
    np.testing.assert_allclose(model.transform(x, output=output), found, rtol=1e-4, atol=1e-6)
