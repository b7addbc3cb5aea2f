"""Heads and settings of frameworks as they were published, and those of encoders that were not."""

import inspect
import itertools

import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith import frameworks
from viewsmith.frameworks.base import DataSummary
from viewsmith.networks import MLP

#: What makes a network, the widths of its layers, and whether its BatchNorm has scale and shift.
NETWORKS = {
    "barlow-twins": (frameworks.barlow_twins.projector, [16, 8192, 8192, 8192], [True, True]),
    "byol": (frameworks.byol.projector, [16, 4096, 256], [True]),
    "byol, predictor": (frameworks.byol.predictor, [256, 4096, 256], [True]),
    "dino": (frameworks.dino.projector, [16, 2048, 2048, 256], []),
    "lejepa": (frameworks.lejepa.projector, [16, 2048, 2048, 128], [True, True]),
    "moco": (frameworks.moco.projector, [16, 2048, 128], []),
    "moco-v3": (frameworks.moco_v3.projector, [16, 4096, 256], [True, False]),
    "moco-v3, predictor": (frameworks.moco_v3.predictor, [256, 4096, 256], [True]),
    "nnclr": (frameworks.nnclr.projector, [16, 2048, 2048, 256], [True, True, False]),
    "nnclr, predictor": (frameworks.nnclr.predictor, [256, 4096, 256], [True]),
    "simsiam": (frameworks.simsiam.projector, [16, 2048, 2048, 2048], [True, True, False]),
    "simsiam, predictor": (frameworks.simsiam.predictor, [2048, 512, 2048], [True]),
    "swav": (frameworks.swav.projector, [16, 2048, 128], [True]),
    "vicreg": (frameworks.vicreg.projector, [16, 8192, 8192, 8192], [True, True]),
}
SETTINGS = {
    frameworks.BarlowTwins: {"off_diagonal_weight": 0.0051},
    frameworks.BYOL: {"momentum": 0.996},
    frameworks.DINO: {"out_dim": 65_536, "temperature": 0.1, "momentum": 0.996, "center_momentum": 0.9},
    frameworks.LeJEPA: {"sigreg_weight": 0.05, "n_slices": 1024, "n_knots": 17},
    frameworks.MoCo: {"queue": 65_536, "temperature": 0.2, "momentum": 0.999},
    frameworks.MoCoV3: {"temperature": 1.0, "momentum": 0.99},
    frameworks.NNCLR: {"temperature": 0.1},
    frameworks.SwAV: {"prototypes": 3000, "temperature": 0.1, "epsilon": 0.05, "iterations": 3},
    frameworks.VICReg: {"invariance_weight": 25, "variance_weight": 25, "covariance_weight": 1},
}


@pytest.mark.parametrize("name", NETWORKS)
def test_networks(name):
    make, widths, affine = NETWORKS[name]
    with torch.device("meta"):
        network = make() if "predictor" in name else make(16)
    linear = [m for m in network if isinstance(m, nn.Linear)]
    assert [(m.in_features, m.out_features) for m in linear] == list(itertools.pairwise(widths))
    assert [m.affine for m in network if isinstance(m, nn.BatchNorm1d)] == affine
    assert sum(isinstance(m, nn.GELU) for m in network) == (2 if name == "dino" else 0)
    if name in ("barlow-twins", "vicreg"):
        assert all(m.bias is None for m in linear)


@pytest.mark.parametrize("framework", SETTINGS)
def test_settings(framework):
    defaults = {name: each.default for name, each in inspect.signature(framework).parameters.items()}
    defaults |= {name: option.default for name, option in framework.declared_options().items()}
    assert defaults | SETTINGS[framework] == defaults


#: Widths and one setting of encoders with a published head, and of others.
BY_ENCODER = {
    frameworks.BarlowTwins: ("off_diagonal_weight", ([8192, 8192, 8192], 0.0051), ([512, 512, 128], 0.08)),
    frameworks.LeJEPA: ("n_slices", ([2048, 2048, 128], 1024), ([512, 512, 64], 256)),
    frameworks.VICReg: ("covariance_weight", ([8192, 8192, 8192], 1.0), ([512, 512, 512], 4.0)),
}


@pytest.mark.parametrize("published", [True, False])
@pytest.mark.parametrize("framework", BY_ENCODER)
def test_head_and_weight_depend_on_the_encoder(framework, published):
    option, *by_encoder = BY_ENCODER[framework]
    widths, value = by_encoder[not published]
    context = frameworks.FrameworkContext(nn.Identity(), 16, published)
    with torch.device("meta"):
        built, custom = framework.build(context), framework.build(context, projector_dims=(8, 4), **{option: 2})
    assert [m.out_features for m in built.head if isinstance(m, nn.Linear)] == widths
    assert [m.out_features for m in custom.head if isinstance(m, nn.Linear)] == [8, 8, 4]
    assert (getattr(built, option), getattr(custom, option)) == (value, 2)


def test_dinos_head_for_resnets():
    context = frameworks.FrameworkContext(nn.Linear(4, 7), 7)
    plain, normed = (frameworks.DINO.build(context, head_norm=norm, out_dim=4).head for norm in ("none", "batch"))
    assert [type(layer).__name__ for layer in plain] == ["Linear", "GELU", "Linear", "GELU", "Linear"]
    assert [type(layer).__name__ for layer in normed] == [*("Linear", "BatchNorm1d", "GELU") * 2, "Linear"]


@pytest.mark.parametrize(("published", "expected"), [(False, 1024), (True, 65_536)])
def test_dino_has_as_many_outputs_as_published_for_resnets(published, expected):
    context = frameworks.FrameworkContext(nn.Linear(4, 7), 7, published)
    assert frameworks.DINO.build(context, projector_dims=(4, 2)).last_layer.out_features == expected
    assert frameworks.DINO.build(context, projector_dims=(4, 2), out_dim=6).last_layer.out_features == 6


def test_the_published_predictor_of_moco_v3_has_no_bias():
    for published in (True, False):
        context = frameworks.FrameworkContext(MLP(4, [5]), 5, published=published)
        dims = {"projector_dims": (8, 6), "predictor_dims": (8,)}
        last = frameworks.MoCoV3.build(context, **dims).predictor[-1]
        assert isinstance(last, nn.Linear) and (last.bias is None) == published


@pytest.mark.parametrize(
    ("n_rows", "batch_size", "expected"),
    [(1000, 64, 500), (100, 64, 64), (40, 64, 64), (10**6, 64, 65_536), (10**6, 70_000, 65_536)],
)
def test_a_queue_holds_half_of_the_rows_at_least_a_batch_at_most_as_published(n_rows, batch_size, expected):
    data = DataSummary({}, n_rows, batch_size)
    if expected < min(n_rows, batch_size):
        assert "queue_size is 65536" in refusal(frameworks.MoCo.resolve, {}, data)
    else:
        assert frameworks.MoCo.resolve({}, data)["queue_size"] == expected
