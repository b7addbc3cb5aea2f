"""CRL-TAC with an encoder that encodes all crops of an image in one pass, other than the small one."""

import numpy as np
import pytest
import torch

import viewsmith
from crl_tac_toys import TINY, images
from refusals import refusal
from viewsmith import CRLTAC

pytestmark = pytest.mark.filterwarnings("ignore::UserWarning")


@pytest.mark.slow
@pytest.mark.parametrize("options", [{}, {"crop_size": 24, "crop_flips": True}, {"precision": "bf16"}])
def test_a_residual_network_that_encodes_all_crops_in_one_pass(tmp_path, options):
    x = images(shape=(28, 32, 3))
    model = CRLTAC(**TINY | {"epochs": 2}, encoder="resnet18-dense", **options).fit(x)
    method, family = model.method_, model.method_.channel.family
    assert method.centered and model.fitted_["n_components"] == 512 and family.is_dense(method.encoder)
    model.save(tmp_path / "run")
    h = viewsmith.load(tmp_path / "run").transform(x, inference="uniform")
    views = family.all_views(torch.from_numpy(model.scaled(x))).flatten(0, 1)
    with torch.no_grad():
        one_by_one = method.encoder(views).unflatten(0, (16, -1)).mean(dim=1).numpy()
    np.testing.assert_allclose(h, one_by_one, atol=1e-5, rtol=1e-4)


def test_a_residual_network_with_a_standard_stem_takes_larger_crops():
    x = images(shape=(48, 56))
    options = {"encoder": "resnet18-dense", "stem": "standard"}
    model = CRLTAC(**TINY, **options, crop_size=40, crop_stride=8).fit(x)
    assert model.method_.channel.family.is_dense(model.method_.encoder) and model.distribution(x).shape == (16, 6)
    message = refusal(CRLTAC(**TINY, **options).fit, x)
    assert (
        message
        == "images are 20 x 20 pixels, expected at least 39 x 39: enlarge them, or take larger crops (crop_size)"
    )


@pytest.mark.parametrize(
    ("crops", "encoder", "centered"),
    [
        ({}, "crl-cnn", False),
        ({"crop_size": 27}, "crl-cnn", False),
        ({"crop_size": 24, "crop_stride": 8}, "crl-cnn", False),
        ({"crop_stride": 6}, "cnn", True),
        ({"crop_size": 16}, "cnn", True),
    ],
)
def test_the_default_encoder_encodes_all_crops_in_one_pass_where_it_can(crops, encoder, centered):
    model = CRLTAC(**TINY, **crops).fit(images(shape=(32, 40)))
    assert (model.fitted_["encoder"], model.method_.centered) == (encoder, centered)
    assert model.method_.channel.family.is_dense(model.method_.encoder) is not centered
