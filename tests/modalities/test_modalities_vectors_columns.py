"""Views of tables change whole columns: a category becomes another category, never a part of one."""

import numpy as np
import pytest
import torch

from viewsmith.methods.crl_tac.transforms import Masks
from viewsmith.modalities.vectors.views import ConditionalCorruption, Corruption, TableColumns, table_columns

COLUMNS = [0, 1, 1, 1, 2, 3, 3]  # a number, a category, a number, a category
CATEGORIES = [(1, 4), (5, 7)]


def rows(n: int = 50) -> torch.Tensor:
    """Scaled rows: numbers that are all different, and categories with the values 0.7 and -0.2 of their indicators."""
    generator = torch.Generator().manual_seed(0)
    made = torch.full((n, 7), -0.2)
    made[:, 0], made[:, 4] = torch.arange(n) / 10, -torch.arange(n) / 10
    for first, end in CATEGORIES:
        made[torch.arange(n), torch.randint(first, end, (n,), generator=generator)] = 0.7
    return made


def is_row_by_row(view: torch.Tensor, pool: torch.Tensor) -> bool:
    """Whether each column of each view is that column of some row of the pool: the slow, obvious loop."""
    for row in view:
        for column in range(4):
            part = [i for i, of in enumerate(COLUMNS) if of == column]
            if not any(torch.equal(row[part], other[part]) for other in pool):
                return False
    return True


def test_corruption_swaps_whole_columns():
    x = rows()
    maker = Corruption(0.5, TableColumns(COLUMNS, CATEGORIES))
    maker.prepare(x)
    view = maker(x, generator=torch.Generator().manual_seed(1))
    assert is_row_by_row(view, x) and not torch.equal(view, x)
    torch.testing.assert_close(view, maker(x, generator=torch.Generator().manual_seed(1)))
    plain = Corruption(0.5)
    plain.prepare(x)
    assert not is_row_by_row(plain(x, generator=torch.Generator().manual_seed(1)), x)


@pytest.mark.parametrize("rate", [0.0, 0.3, 1.0])
def test_columns_are_chosen_with_the_same_probability(rate):
    masked = TableColumns(COLUMNS).masked(torch.zeros(4000, 7), rate, torch.Generator().manual_seed(0))
    np.testing.assert_allclose(masked.float().mean(0), rate, atol=0.03)
    assert (masked[:, 1] == masked[:, 2]).all() and (masked[:, 5] == masked[:, 6]).all()


def test_conditional_corruption_draws_whole_categories():
    x = rows(200)
    maker = ConditionalCorruption(7, 0.6, hidden=8, steps=5, columns=TableColumns(COLUMNS, CATEGORIES))
    maker.prepare(x)
    view = maker(x, generator=torch.Generator().manual_seed(0))
    for first, end in CATEGORIES:
        block = view[:, first:end]
        torch.testing.assert_close(block.sort(dim=1).values[:, -1], torch.full((200,), 0.7))
        torch.testing.assert_close(block.sort(dim=1).values[:, :-1], torch.full((200, end - first - 1), -0.2))
    assert not torch.equal(view[:, 1:4], x[:, 1:4])
    again = ConditionalCorruption(7, 0.6, hidden=8, steps=5, columns=TableColumns(COLUMNS, CATEGORIES))
    again.load_state_dict(maker.state_dict())
    torch.testing.assert_close(again(x, generator=torch.Generator().manual_seed(0)), view)


def test_an_indicator_that_never_varies_is_not_chosen():
    low, high = torch.tensor([-0.2, -0.2, 0.0]), torch.tensor([0.7, 0.7, 0.0])
    found = TableColumns([0, 0, 0], [(0, 3)]).snapped(torch.tensor([[0.1, 0.0, 9.0]]), low, high)
    torch.testing.assert_close(found, torch.tensor([[0.7, -0.2, 0.0]]))


def test_masks_keep_whole_columns():
    masks = Masks(COLUMNS, count=20, keep=0.5).masks
    assert masks.shape == (20, 7)
    assert (masks[:, 1] == masks[:, 3]).all() and (masks[:, 5] == masks[:, 6]).all()
    of_columns = Masks(4, count=20, keep=0.5).masks
    torch.testing.assert_close(masks[:, [0, 1, 4, 5]], of_columns)


def test_rows_that_are_no_table_have_no_columns():
    assert table_columns({}) is None
    assert table_columns({"columns": COLUMNS, "categories": [[1, 4]]}).categories == [(1, 4)]
