"""For any arguments and any damage to the files of a run, a command succeeds or is refused in one line."""

import shutil
import tempfile
from pathlib import Path

import numpy as np
from cli_tools import call
from hypothesis import HealthCheck, given
from hypothesis import strategies as st

from properties import examples

X = np.random.default_rng(0).normal(size=(12, 3)).astype(np.float32)
MAKERS = ["identity", "noise", "corruption", "mixup", "neighbor-mix", "neighbors"]
VIEWS = st.lists(st.sampled_from(MAKERS), min_size=1, max_size=3).map("+".join)
NUMBERS = st.sampled_from(["1", "2", "5", "40", "0.5"])
ANYTHING = st.one_of(
    NUMBERS, st.sampled_from(["0", "-1", "nan", "inf", "none", "auto", "true", ""]), st.text(max_size=4)
)
ENCODER = ["hidden", "projector_dims", "n_components", "norm", "input_components", "gradient_clip", "warmup", "scaling"]
PAIRS = ["kernel", "temperature", "n_neighbors", "noise_strength", "corruption_rate", "mixup_minimum", "strength"]
KEYS = st.sampled_from([*ENCODER, *PAIRS, "nothing"])


def option(name, values):
    """An option that is given or not."""
    return st.one_of(st.just(()), values.map(lambda value: (name, value)))


FLAGS = st.tuples(
    option("--method", st.sampled_from(["contrastive", "pinda"])),
    option("--views", VIEWS),
    option("--batch-size", st.sampled_from(["1", "2", "5", "40", "0"])),
    option("--seed", st.integers(-1, 2**70).map(str)),
    option("--preset", st.just("paper")),
    option("--impute", st.sampled_from(["none", "median"])),
    option("--set", st.tuples(KEYS, ANYTHING).map("=".join)),
    option("--set", st.tuples(KEYS, NUMBERS).map("=".join)),
    option("--checkpoint-every", st.sampled_from(["0", "1e9"])),
    option("--minutes", st.sampled_from(["1e-9", "5"])),
)


@examples(25)
@given(flags=FLAGS)
def test_any_arguments(flags):
    with tempfile.TemporaryDirectory() as folder:
        np.save(Path(folder, "x.npy"), X)
        arguments = [part for flag in flags for part in flag]
        run = Path(folder, "run")
        result = call("fit", Path(folder, "x.npy"), "--out", run, "--epochs", 1, *arguments)
        if result.code == 0:
            call("embed", run, Path(folder, "x.npy"), "--out", Path(folder, "h.npy"))
            assert np.load(Path(folder, "h.npy")).shape[0] == 12
        else:
            assert result.refused()
            assert not run.exists()


def cut(content, fraction, _):
    return content[: int(fraction * len(content))]


def flip(content, fraction, bit):
    at = int(fraction * len(content))
    return content[:at] + bytes([content[at] ^ (1 << bit)]) + content[at + 1 :] if content else content


def overwrite(content, fraction, bit):
    at = int(fraction * len(content))
    return content[:at] + bytes([bit]) * 32 + content[at + 32 :]


NEEDED = ("config.toml", "model.safetensors", "initial.safetensors")


@examples(60, HealthCheck.function_scoped_fixture)
@given(
    name=st.sampled_from([*NEEDED, "config.toml", "summary.json", "metrics.jsonl"]),
    change=st.sampled_from([cut, flip, overwrite]),
    fraction=st.floats(0, 1, exclude_max=True),
    bit=st.integers(0, 7),
)
def test_any_damage_to_a_run(runs, data, name, change, fraction, bit):
    with tempfile.TemporaryDirectory() as folder:
        run, out = Path(folder, "run"), Path(folder, "h.npy")
        run.mkdir()
        for file in (*NEEDED, "summary.json", "metrics.jsonl"):
            shutil.copy(runs / "plain" / file, run)
        content = (run / name).read_bytes()
        (run / name).write_bytes(change(content, fraction, bit))
        result = call("embed", run, data / "x.npy", "--out", out)
        if result.code == 0:
            assert change is not cut or not name.endswith(".safetensors")
            assert np.load(out).shape == (40, 256)
        else:
            assert result.refused() and not out.exists()
