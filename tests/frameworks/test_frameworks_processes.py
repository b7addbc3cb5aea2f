"""Two processes with half of a batch each do what one does with all of it."""

import pytest
import torch
from framework_cases import FRAMEWORKS
from framework_processes import steps, work


@pytest.fixture(scope="module")
def of_two(processes, tmp_path_factory):
    """What each of two processes finds, for every framework."""
    folder = tmp_path_factory.mktemp("group")
    members = [processes.Process(target=work, args=(rank, str(folder / "meet"), str(folder))) for rank in (0, 1)]
    for member in members:
        member.start()
    for member in members:
        member.join(60)
    alive = [member.kill() for member in members if member.is_alive()]
    assert not alive and [member.exitcode for member in members] == [0, 0]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("name", list(FRAMEWORKS))
def test_two_processes_equal_one_on_the_whole_batch(of_two, name):
    expected = steps(name)
    for found in of_two:
        assert found[name].keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(found[name][key], value, rtol=1e-8, atol=1e-12, msg=lambda m, k=key: f"{k}: {m}")
    # Both hold one queue, one centre and one set of weights, to the last bit.
    one, other = (found[name] for found in of_two)
    assert all(torch.equal(one[key], other[key]) for key in expected)
