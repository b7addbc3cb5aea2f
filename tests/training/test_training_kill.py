"""A training that is killed at any moment and resumed has the same weights and metrics, bit for bit."""

import signal

import pytest
from training_toys import METHODS, STEPS, apart, result, train

from cases import slow

KILLED = -signal.SIGKILL


@pytest.fixture
def in_process(processes):
    """Runs a function in another process and returns its exit code."""

    def call(function, *args, **kwargs):
        process = processes.Process(target=apart, args=(function, *args), kwargs=kwargs)
        process.start()
        process.join(60)
        if process.is_alive():
            process.kill()
            pytest.fail(f"{function.__name__} did not end")
        return process.exitcode

    return call


@pytest.fixture(scope="module")
def uninterrupted(tmp_path_factory):
    """The result of an uninterrupted training of each method, without checkpoints."""
    found = {}
    for which in METHODS:
        folder = tmp_path_factory.mktemp(which)
        train(folder, which, every=1e9)
        found[which] = result(folder)
    return found


def resume_and_compare(in_process, folder, which, uninterrupted):
    assert in_process(train, folder, which, resume=True) == 0
    weights, metrics = result(folder)
    assert metrics == uninterrupted[which][1]
    assert weights == uninterrupted[which][0]


# After the first step, within an epoch, at the end of an epoch, at the end of phase 1 (step 8) and near it, at the end.
@pytest.mark.parametrize(
    ("which", "step"),
    [("players", 3), *(slow("players", step) for step in (1, 4, 8, 9, 14, STEPS)), slow("pinda", 4), ("pinda", 7)],
)
def test_killed_after_a_step(in_process, tmp_path, which, step, uninterrupted):
    assert in_process(train, tmp_path, which, kill=step) == KILLED
    assert not (tmp_path / "final.safetensors").exists()
    resume_and_compare(in_process, tmp_path, which, uninterrupted)


# Every save replaces two files: tensors (odd numbers) and their pointer (even). The 8th step is saved twice, as the
# last step of its phase (15, 16) and at the start of the next phase (17, 18); so is the last step (43, 44).
WRITES = [1, 2, 15, 16, 17, 18, 43, 44]
MOMENTS = [(number, when) for number in WRITES for when in ("before", "after")]


MOMENTS += [(number, "half") for number in WRITES if number % 2]
QUICK = [(1, "half"), (16, "before"), (17, "after"), (44, "before")]


@pytest.mark.parametrize(("number", "when"), [case if case in QUICK else slow(*case) for case in MOMENTS])
def test_killed_within_a_checkpoint_write(in_process, tmp_path, number, when, uninterrupted):
    assert in_process(train, tmp_path, "players", write=(number, when)) == KILLED
    resume_and_compare(in_process, tmp_path, "players", uninterrupted)


@pytest.mark.parametrize("which", METHODS)
def test_killed_again_and_again(in_process, tmp_path, which, uninterrupted):
    for step in (2, 8, 13):
        assert in_process(train, tmp_path, which, kill=step, resume=True) == KILLED
    resume_and_compare(in_process, tmp_path, which, uninterrupted)
    # Partly written files are removed: one state and its pointer remain.
    suffixes = sorted(path.suffix for path in (tmp_path / "checkpoint").iterdir())
    assert suffixes == [".json", ".safetensors"]


def test_resuming_from_an_old_checkpoint_gives_the_same_result(in_process, tmp_path, uninterrupted):
    # Saved only between the phases: the process was killed six steps and one row of metrics later.
    assert in_process(train, tmp_path, "players", kill=14, every=1e9) == KILLED
    assert len((tmp_path / "metrics.jsonl").read_text().splitlines()) == 3
    resume_and_compare(in_process, tmp_path, "players", uninterrupted)
