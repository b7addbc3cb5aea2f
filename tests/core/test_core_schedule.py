"""The interface of methods, errors, and distributed functions with one process."""

import pytest
import torch
from torch import nn

from viewsmith.core import Batch, InputError, Method, MissingExtra, Phase, Update, distributed


def test_gather_with_one_process_returns_its_input():
    x = torch.randn(3, 2, requires_grad=True)
    assert not distributed.is_distributed()
    assert (distributed.world_size(), distributed.rank()) == (1, 0)
    assert distributed.gather(x) is x
    assert distributed.local_rows(3) == slice(0, 3)


def test_missing_extra_is_an_input_error_that_names_the_extra():
    error = MissingExtra("umap-learn", "viz", "the umap row")
    assert isinstance(error, InputError) and isinstance(error, ImportError)
    assert "pip install 'viewsmith[viz]'" in str(error) and "umap-learn" in str(error) and "\n" not in str(error)


def test_defaults_of_batch_update_and_phase():
    batch = Batch(torch.zeros(2, 1), torch.arange(2), torch.Generator())
    assert batch.weight is None and (batch.epoch, batch.step) == (0, 0)
    update = Update("a", lambda given: (given.x, {}), (nn.Linear(1, 1),))
    assert update.optimizer is None and update.interval == 1
    assert Phase("p", 1, [update]).start is None


@pytest.mark.parametrize("call", ["phases", "represent", "view"])
def test_defaults_of_the_base_class(call):
    method = Method()
    with pytest.raises(NotImplementedError):
        getattr(method, call)(*([] if call == "phases" else [torch.zeros(1)]))
    assert method.diagnose(torch.zeros(1), torch.Generator()) == {}
    assert method.prepare(torch.zeros(1), 0) is None
    assert method.warnings([]) == [] and method.early_warnings([], 0.5) == {}
