"""A network that is larger than its weights is refused before it is allocated."""

import pytest
import torch
from torch import nn

from refusals import refusal
from viewsmith.core.errors import InputError
from viewsmith.core.tensors import MORE, TIMES, AllocationLimit

MAKERS = [
    lambda n: nn.Linear(n, 100),
    lambda n: nn.Embedding(n, 100),
    lambda n: torch.zeros((n, 100)),
    lambda n: torch.full((n, 100), 1.0),
    lambda n: torch.randn(n, 100, generator=torch.Generator()),
    lambda n: torch.arange(100 * n),
    lambda n: torch.linspace(0, 1, steps=100 * n),
    lambda n: torch.zeros(1).new_zeros(n, 100),
    lambda n: torch.zeros(1).repeat(100 * n),
    lambda n: [nn.Linear(1000, 1000) for _ in range(n // 1000)],
]


@pytest.mark.parametrize("make", MAKERS)
def test_what_is_too_large_is_not_allocated(make):
    with AllocationLimit({}, "config.toml"):
        small = make(1000)
    assert small is not None  # what fits is made
    said = r"config\.toml describes a network that is much larger than its weights"
    with pytest.raises(InputError, match=said), AllocationLimit({}, "config.toml"):
        make(10**9)


def test_the_limit_is_that_of_all_weights_together():
    weights = {"a": torch.zeros(10**6), "b": torch.zeros(10**6, dtype=torch.float64)}
    most = TIMES * 12 * 10**6 + MORE

    def make(n_bytes):
        with AllocationLimit(weights, "config.toml"):
            made = torch.empty(n_bytes // 2, dtype=torch.uint8), torch.empty(n_bytes // 4, dtype=torch.int16)
        return sum(each.nbytes for each in made)

    assert make(most) == most
    refusal(make, most + 4)
    assert make(most) == most  # each has a count of its own
