"""Methods whose views are drawn from a trained channel: what represents a sample."""

import numpy as np
import pytest
import torch

import viewsmith
from crl_tac_toys import DATA, TINY, images
from viewsmith import CRLTAC, Contrastive, MetAug, PiNDA

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")

OPTIONS = {"epochs": 1, "batch_size": 8, "n_components": 8, "random_state": 0, "framework": "simclr"}


def whole(model, x):
    """Representations of samples themselves."""
    with torch.no_grad():
        return model.method_.framework.represent(model.samples(x)[: len(x)]).numpy()


@pytest.mark.parametrize("cls", [Contrastive, PiNDA, MetAug])
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


@pytest.mark.parametrize("domain", DATA)
def test_views_that_show_most_of_a_sample(domain, tmp_path):
    x = DATA[domain]()
    CRLTAC(**TINY).fit(x, run=tmp_path / "channel")
    model = Contrastive(**OPTIONS, hidden=(8,), view_maker=f"channel:{tmp_path / 'channel'}").fit(x)
    np.testing.assert_allclose(model.transform(x), whole(model, x), rtol=1e-5, atol=1e-6)


def test_crops_of_equal_probability(tmp_path):
    x = images(shape=(48, 44))
    CRLTAC(**TINY, channel="uniform").fit(x, run=tmp_path / "uniform")
    for views in ("grid-crop", f"channel:{tmp_path / 'uniform'}"):
        model = Contrastive(**OPTIONS, encoder="cnn", view_maker=views).fit(x)
        np.testing.assert_allclose(model.transform(x), whole(model, x), rtol=1e-5, atol=1e-6)
