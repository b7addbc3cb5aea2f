"""SimCLR against NT-Xent, with several kernels and negatives."""

import pytest
from framework_cases import assert_value_and_gradient, build, pair

from viewsmith.losses import nt_xent


@pytest.mark.parametrize("ids", [True, False])
@pytest.mark.parametrize(
    "options",
    [
        {"kernel": "cosine", "temperature": 0.1, "negatives": "all"},
        {"kernel": "cosine", "temperature": 0.5, "negatives": "cross"},
        {"kernel": "cauchy", "temperature": 1.0, "negatives": "cross"},
        {"kernel": "cauchy", "temperature": 0.5, "negatives": "all"},
    ],
    ids=lambda options: "-".join(str(value) for value in options.values()),
)
def test_simclr_equals_nt_xent_of_the_projections(options, ids):
    simclr, views = build("simclr", **options), pair(ids=ids)
    z0, z1 = simclr.head(simclr.encoder(views.first)), simclr.head(simclr.encoder(views.second))
    expected = nt_xent(z0, z1, ids=views.ids, **options)
    assert_value_and_gradient(simclr, simclr(views), list(expected))
