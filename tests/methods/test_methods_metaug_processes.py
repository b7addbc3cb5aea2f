"""Two processes with half of a batch each find the meta gradient that one finds with all of it."""

import pytest
import torch
from metaug_cases import SHARED, two_steps, work


@pytest.fixture(scope="module")
def of_two(processes, tmp_path_factory):
    """What each of two processes finds."""
    folder = tmp_path_factory.mktemp("group")
    members = [processes.Process(target=work, args=(rank, str(folder / "meet"), str(folder))) for rank in (0, 1)]
    for member in members:
        member.start()
    for member in members:
        member.join(90)
    alive = [member.kill() for member in members if member.is_alive()]
    assert not alive and [member.exitcode for member in members] == [0, 0]
    return [torch.load(folder / f"{rank}.pt", weights_only=True) for rank in (0, 1)]


@pytest.mark.parametrize("name", SHARED)
def test_two_processes_equal_one_on_the_whole_batch(of_two, name):
    expected = two_steps(name)
    assert any("features: gradient" in key for key in expected)
    for found in of_two:
        assert found[name].keys() == expected.keys()
        for key, value in expected.items():
            torch.testing.assert_close(
                found[name][key], value, rtol=1e-10, atol=1e-10, msg=lambda m, k=key: f"{k}: {m}"
            )
    one, other = (found[name] for found in of_two)
    assert all(torch.equal(one[key], other[key]) for key in expected)
