"""Commands on images and DNA at the limits of what is allowed: errors, results and files."""

import json

import numpy as np
import pytest
import torch
from cli_tools import baselines_of, call, good

from viewsmith import Contrastive

SMALL = ("--epochs", "1", "--batch-size", "8")


@pytest.fixture(scope="module")
def data(tmp_path_factory):
    """Folder with images in color and in gray, without and with a channel, and DNA of three lengths."""
    folder, rng = tmp_path_factory.mktemp("data"), np.random.default_rng(0)
    color = rng.integers(0, 256, (24, 12, 12, 3)).astype(np.uint8)
    np.savez(folder / "color.npz", X=color, y=np.arange(24) % 2)
    np.save(folder / "gray.npy", color[..., 0])
    np.save(folder / "channel.npy", color[..., :1])
    texts = ["".join(rng.choice(list("ACGT"), rng.integers(20, 40))) for _ in range(24)]
    for name, times in (("short", 1), ("long", 3), ("huge", 60)):
        records = [f">s{i} label={'ab'[i % 2]}\n{text * times}\n" for i, text in enumerate(texts)]
        (folder / f"{name}.fa").write_text("".join(records))
    (folder / "one.fa").write_text(">one\nacgtn\n")
    return folder


@pytest.fixture(scope="module")
def run(data, tmp_path_factory):
    """A run of the method on a file, fitted once."""
    folder, known = tmp_path_factory.mktemp("runs"), {}

    def fitted(name, *options):
        if (name, options) not in known:
            known[name, options] = folder / str(len(known))
            good("fit", data / name, "--out", known[name, options], *SMALL, *options)
        return known[name, options]

    return fitted


REFUSED = [
    ("one.fa", (), "expected at least 2"),
    ("short.fa", ("--preset", "paper"), "contrastive has no preset 'paper' for dna"),
    ("color.npz", ("--set", "encoder_weights=absent.safetensors"), "no weights at absent.safetensors"),
    ("color.npz", ("--method", "pinda", "--set", "generator=sequence"), "generator is 'sequence'"),
]


@pytest.mark.parametrize(("name", "options", "part"), REFUSED)
def test_refused_data_and_options_leave_no_files(data, tmp_path, name, options, part):
    (tmp_path / "empty").mkdir()
    for out in (tmp_path / "new" / "run", tmp_path / "empty"):
        assert call("fit", data / name, "--out", out, *SMALL, *options).refused(part)
    assert [path.name for path in tmp_path.rglob("*")] == ["empty"]


def test_gray_images_with_and_without_a_channel(run, data, tmp_path):
    fitted, given = "channel.npy", "gray.npy"
    folder = run(fitted, "--method", "pinda")
    for name in (fitted, given):
        good("embed", folder, data / name, "--out", tmp_path / f"{name}.npz")
        good("views", folder, data / name, "--n", 2, "--out", tmp_path / "views.npz")
        with np.load(tmp_path / "views.npz") as made:
            assert made["views"].shape[2:] == np.load(data / name).shape[1:] and made["views"].dtype == np.uint8
        assert good("report", folder, "--data", data / name).err == ""
    with np.load(tmp_path / f"{fitted}.npz") as one, np.load(tmp_path / f"{given}.npz") as other:
        assert np.array_equal(one["H"], other["H"])


def test_sequences_longer_and_fewer_than_in_training(run, data, tmp_path):
    folder = run("short.fa", "--method", "pinda")
    for name, rows, shape in (("long.fa", 24, (19, 2, 117)), ("one.fa", 1, (1, 2, 5))):
        good("embed", folder, data / name, "--out", tmp_path / "h.csv")
        assert len((tmp_path / "h.csv").read_text().splitlines()) == rows + 1
        good("views", folder, data / name, "--n", 2, "--out", tmp_path / "views.npz")
        with np.load(tmp_path / "views.npz") as made:
            assert made["views"].shape == shape
        assert good("report", folder, "--data", data / name).err == ""
    result = json.loads(good("evaluate", folder, data / "long.fa", "--json", "--protocols", "knn").out)
    assert result["embeddings"].keys() == {*baselines_of("dna"), "untrained", "representation"}


def test_a_run_with_a_custom_encoder(data, tmp_path):
    custom_encoder = torch.nn.Sequential(torch.nn.Flatten(), torch.nn.Linear(144, 4))
    folder = tmp_path / "run"
    Contrastive(encoder=custom_encoder, epochs=1, random_state=0).fit(np.load(data / "gray.npy"), run=folder)
    for command in (("embed", "--out", tmp_path / "h.npz"), ("evaluate",), ("views", "--out", tmp_path / "v.npz")):
        result = call(command[0], folder, data / "gray.npy", *command[1:])
        assert result.refused("the encoder of the run", "is custom", f"viewsmith.load({str(folder)!r}, encoder=module)")
        assert "damaged" not in result.err
    assert "no maps and galleries" in good("report", folder).err and (folder / "report.html").exists()
