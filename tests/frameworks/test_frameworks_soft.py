"""DiffAug's framework: losses of projection and map, and the gradient that reaches the encoder."""

import pytest
import torch
from framework_cases import B, assert_value_and_gradient, build, networks, pair, trainable

from viewsmith.core.errors import InputError
from viewsmith.frameworks import InfoNCESettings, SoftContrastive, SoftSettings
from viewsmith.losses import nt_xent, soft_contrastive
from viewsmith.losses.soft_contrastive import default_negative_weight, soft_normalized
from viewsmith.networks import MLP


def projections(framework, views):
    y0, y1 = framework.encoder(views.first), framework.encoder(views.second)
    return y0, y1, (framework.head(y0), framework.head(y1)), (framework.map_head(y0), framework.map_head(y1))


def scaled(y, distance=100.0):
    """Rows scaled to a mean squared distance over all pairs."""
    pairs = sum(((a - b) ** 2).sum() for a in y for b in y) / len(y) ** 2
    return y * (distance / pairs.detach()) ** 0.5


def test_losses_of_projection_and_map_are_added():
    framework, views = build("soft"), pair()
    y0, _, z, z_map = projections(framework, views)
    target = scaled(y0)
    expected = soft_normalized(*z, target, ids=views.ids) + soft_normalized(*z_map, target, ids=views.ids)
    assert_value_and_gradient(framework, framework(views), list(expected))


@pytest.mark.parametrize("targets", ["samples", "views"])
def test_the_published_loss_with_weights_of_negatives(targets):
    options = {"nu": 0.3, "nu_target": 5.0, "kernel": "plain", "beta": 0.2}
    loss = SoftSettings(normalize=False, targets=targets, target_distance=None, **options)
    map_loss = SoftSettings(normalize=False, negative_weight=0.4, target_distance=None)
    framework, views = build("soft", loss=loss, map_loss=map_loss), pair()
    y0, y1, z, z_map = projections(framework, views)
    target = y1 if targets == "views" else None
    weight = default_negative_weight(3, 0.3, B)
    assert weight == pytest.approx(1)  # 5 / (B - 1)
    expected = soft_contrastive(*z, y0, target, negative_weight=weight, ids=views.ids, **options)
    expected = expected + soft_contrastive(
        *z_map, y0, nu=1.0, kernel="paper", negative_weight=0.4, ids=views.ids, floor=1e-5
    )
    torch.testing.assert_close(framework(views), expected, rtol=1e-9, atol=1e-9)


def test_info_nce_replaces_the_soft_loss():
    framework, views = build("soft", loss=InfoNCESettings("cosine", 0.3), map_loss=InfoNCESettings()), pair()
    _, _, z, z_map = projections(framework, views)
    options = {"negatives": "cross", "ids": views.ids}
    expected = nt_xent(*z, temperature=0.3, **options)
    expected = expected + nt_xent(*z_map, temperature=1.0, kernel="cauchy", **options)
    torch.testing.assert_close(framework(views), expected, rtol=1e-9, atol=1e-9)


def test_without_a_map_head_the_head_is_the_map():
    torch.manual_seed(0)
    framework, views = SoftContrastive(*networks()).double(), pair()
    y0, y1 = framework.encoder(views.first), framework.encoder(views.second)
    expected = soft_normalized(framework.head(y0), framework.head(y1), scaled(y0), ids=views.ids)
    torch.testing.assert_close(framework(views), expected, rtol=1e-9, atol=1e-9)
    assert framework.map_network is framework.head


@pytest.mark.parametrize("fraction", [0.0, 0.25, 1.0])
def test_the_fraction_of_the_maps_gradient_that_reaches_the_encoder(fraction):
    framework, views = build("soft", map_gradient=fraction), pair()
    encoder, map_head = list(framework.encoder.parameters()), list(framework.map_head.parameters())
    found = torch.autograd.grad(framework(views).mean(), [*encoder, *map_head])
    y0, _, z, z_map = projections(framework, views)
    target = scaled(y0.detach())
    of_z = torch.autograd.grad(soft_normalized(*z, target, ids=views.ids).mean(), encoder, retain_graph=True)
    of_map = torch.autograd.grad(soft_normalized(*z_map, target, ids=views.ids).mean(), [*encoder, *map_head])
    for number, gradient in enumerate(found):
        in_encoder = number < len(encoder)
        expected = of_z[number] + fraction * of_map[number] if in_encoder else of_map[number]
        torch.testing.assert_close(gradient, expected, rtol=1e-8, atol=1e-12)
        assert of_map[number].abs().max() > 0


def test_a_map_gradient_out_of_range_is_rejected():
    with pytest.raises(InputError, match=r"map_gradient is 1.5, expected 0 \(none\) to 1"):
        SoftContrastive(*networks(), MLP(5, [2]), map_gradient=1.5)


def test_every_weight_gets_a_gradient():
    framework = build("soft")
    framework(pair()).mean().backward()
    assert all(weight.grad.abs().max() > 0 for weight in trainable(framework))
