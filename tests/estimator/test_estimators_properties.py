"""Any table gives a finite representation with the documented shape, or a message of one line."""

import warnings

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from properties import examples
from viewsmith import Contrastive, PiNDA
from viewsmith.core.errors import InputError

TINY = {"epochs": 1, "hidden": (4,), "n_components": 3, "projector_dims": (2,), "random_state": 0}
SOME = examples(40)


def fitted(cls, x, **options):
    with warnings.catch_warnings(action="ignore"):
        return cls(**TINY, **options).fit(x)


finite = st.floats(-1e6, 1e6, width=32)
tables = hnp.arrays(np.float32, st.tuples(st.integers(2, 12), st.integers(1, 6)), elements=finite)


@pytest.mark.parametrize("cls", [Contrastive, PiNDA])
@SOME
@given(x=tables)
@example(x=np.zeros((5, 3), np.float32))
@example(x=np.full((2, 1), 7, np.float32))
@example(x=np.repeat(np.eye(3, dtype=np.float32), 3, axis=0) * 1e-30)
@example(x=np.array([[1e-45], [0]], np.float32))
def test_any_finite_table_trains(cls, x):
    model = fitted(cls, x)
    h, views = model.transform(x), model.views(x, n_views=2)
    assert h.shape == (len(x), 3) and np.isfinite(h).all()
    assert views.shape == (len(x), 2, x.shape[1]) and np.isfinite(views).all()
    assert np.array_equal(h, fitted(cls, x).transform(x))


@SOME
@given(x=hnp.arrays(np.float32, st.tuples(st.integers(0, 4), st.integers(1, 3)), elements=st.floats(width=32)))
def test_invalid_tables_are_refused_in_one_line(x):
    try:
        fitted(Contrastive, x)
    except InputError as error:
        assert "\n" not in str(error)
        assert not np.isfinite(x).all() or len(x) < 2
    else:
        assert np.isfinite(x).all() and len(x) >= 2


@SOME
@given(x=tables, fraction=st.floats(0, 0.6), seed=st.integers(0, 99))
def test_missing_values_are_refused_or_imputed(x, fraction, seed):
    holes = np.random.default_rng(seed).random(x.shape) < fraction
    x = np.where(holes, np.nan, x).astype(np.float32)
    if holes.any():
        with pytest.raises(InputError, match=r"NaN|missing"):
            fitted(Contrastive, x)
    if not holes.all(axis=0).any():
        assert np.isfinite(fitted(Contrastive, x, impute="median").transform(x)).all()


@SOME
@given(view_maker=st.lists(st.sampled_from(["noise", "corruption", "mixup", "neighbor-mix", "neighbors"]), min_size=1))
def test_view_makers_join_in_any_order(view_maker):
    x = np.random.default_rng(0).normal(size=(9, 4)).astype(np.float32)
    model = fitted(Contrastive, x, view_maker="+".join(view_maker))
    assert model.views(x, 2).shape == (9, 2, 4)
