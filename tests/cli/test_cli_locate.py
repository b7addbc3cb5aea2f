"""locate and crop: locations that a run of crl-tac finds, as tables, BED, images, FASTA and arrays; and errors."""

import importlib.util

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, files, good
from PIL import Image
from safetensors.torch import save_file

import viewsmith
from crl_tac_toys import TINY
from located_toys import bright, motifs, pointing
from viewsmith.data import load_dataset

BOX = ["top", "left", "height", "width", "probability"]


def write_run(folder, source, **options):
    """Write a run of crl-tac on a file or folder, with the channel of `located_toys.pointing`."""
    flags = [
        f"--set={name}={value}" for name, value in (TINY | options).items() if name not in ("random_state", "epochs")
    ]
    good("fit", source, "--method", "crl-tac", "--epochs", 1, "--out", folder, *flags)
    model = viewsmith.load(folder)
    pointing(model)
    save_file(model.weights(), folder / "model.safetensors")
    return folder


@pytest.fixture(scope="module")
def folder_of_runs(tmp_path_factory):
    """Images as an array with a split and as a folder, sequences as FASTA, vectors; and a run on each."""
    folder = tmp_path_factory.mktemp("locate")
    x, squares = bright(20)
    x[3] = 0
    np.save(folder / "squares.npy", squares)
    np.savez(folder / "images.npz", X_train=x[:14], X_test=x[14:], y_train=np.arange(14) % 2, y_test=np.arange(6) % 2)
    for row, image in enumerate(x):
        file = folder / "photos" / ("cat", "dog")[row % 2] / f"{row:02d}.{'bmp' if row % 3 else 'png'}"
        file.parent.mkdir(parents=True, exist_ok=True)
        Image.fromarray(image).save(file)
    dna, starts = motifs(20)
    np.save(folder / "starts.npy", starts)
    texts = [bytes(row).rstrip(b"\0").decode() for row in dna]
    lines = [
        f">s{k} x split={'test' if k % 4 == 0 else 'train'} label=k{k % 2}\n{text}\n" for k, text in enumerate(texts)
    ]
    (folder / "seqs.fasta").write_text("".join(lines))
    pd.DataFrame(np.random.default_rng(0).normal(size=(20, 5)), columns=list("abcde")).to_csv(
        folder / "t.csv", index=False
    )
    write_run(folder / "of-images", folder / "images.npz")
    write_run(folder / "of-photos", folder / "photos")
    write_run(folder / "of-dna", folder / "seqs.fasta", window_fraction=0.25, windows=13)
    write_run(folder / "of-table", folder / "t.csv", masks=6)
    good("fit", folder / "t.csv", "--epochs", 1, "--out", folder / "other")
    return folder


# ---- locate ---------------------------------------------------------------------------------------------------------


def test_a_row_for_each_box_train_before_test(folder_of_runs, tmp_path):
    out = tmp_path / "boxes.csv"
    result = good("locate", folder_of_runs / "of-images", folder_of_runs / "images.npz", "--out", out)
    assert result.out == f"{out}\n"
    assert result.err.splitlines() == [
        f"warning: no location is found in 1 of 20 samples of {folder_of_runs / 'images.npz'}: P(T|x) is too close to "
        "uniform; these samples have no row"
    ]
    table = pd.read_csv(out)
    assert list(table) == ["index", "split", *BOX]
    assert table["split"].tolist() == ["train"] * 13 + ["test"] * 6
    assert table["index"].tolist() == [k for k in range(14) if k != 3] + list(range(6))
    squares = np.delete(np.load(folder_of_runs / "squares.npy"), 3, axis=0)
    middles = table[["top", "left"]].to_numpy() + 10
    assert np.abs(middles - squares[:, :2] - 6).max() <= 2.5
    assert [path.name for path in tmp_path.iterdir()] == ["boxes.csv"]


def test_rows_of_a_drawn_split_have_the_numbers_and_names_of_their_files(folder_of_runs, tmp_path):
    good("locate", folder_of_runs / "of-photos", folder_of_runs / "photos", "--out", tmp_path / "b.csv", "--n", 2)
    table, dataset = pd.read_csv(tmp_path / "b.csv"), load_dataset(folder_of_runs / "photos")
    assert list(table) == ["index", "split", "name", *BOX]
    assert table["name"].tolist() == [dataset.row_names[k] for k in table["index"]]
    of = {"train": dataset.train_index, "test": dataset.test_index}
    assert all(index in of[split] for index, split in zip(table["index"], table["split"], strict=True))
    order = table["split"].eq("test").to_numpy() * 100 + table["index"].to_numpy()
    assert (np.diff(order) >= 0).all() and table["split"].nunique() == 2


def test_windows_as_bed_and_as_a_table(folder_of_runs, tmp_path):
    good("locate", folder_of_runs / "of-dna", folder_of_runs / "seqs.fasta", "--out", tmp_path / "x.bed")
    bed = pd.read_csv(tmp_path / "x.bed", sep="\t", header=None, names=["name", "start", "end", "of", "score"])
    names = [f"s{k}" for k in range(20) if k % 4] + [f"s{k}" for k in range(0, 20, 4)]
    assert bed["name"].tolist() == names and bed["score"].between(0, 1000).all() and (bed["of"] == ".").all()
    starts = np.load(folder_of_runs / "starts.npy")[[int(name[1:]) for name in names]]
    assert np.abs((bed["start"] + bed["end"]) / 2 - starts - 6).max() <= 6
    good("locate", folder_of_runs / "of-dna", folder_of_runs / "seqs.fasta", "--out", tmp_path / "x.csv")
    table = pd.read_csv(tmp_path / "x.csv")
    assert list(table) == ["index", "split", "name", "start", "end", "probability"]
    assert (table[["name", "start", "end"]] == bed[["name", "start", "end"]]).all(axis=None)
    np.testing.assert_allclose(table["probability"] * 1000, bed["score"], atol=0.51)


def test_features_of_a_table_have_their_names(folder_of_runs, tmp_path):
    good("locate", folder_of_runs / "of-table", folder_of_runs / "t.csv", "--out", tmp_path / "f.csv", "--n", 2)
    table = pd.read_csv(tmp_path / "f.csv")
    mask = viewsmith.load(folder_of_runs / "of-table").method_.channel.family.masks[0].numpy()
    assert list(table) == ["index", "split", "feature", "probability"] and (table["split"] == "train").all()
    assert set(table["feature"]) <= {name for name, is_kept in zip("abcde", mask, strict=True) if is_kept}
    assert np.bincount(table["index"]).tolist() == [2] * 20


def test_no_locations_give_an_empty_table(folder_of_runs, tmp_path):
    np.savez(tmp_path / "black.npz", X=np.zeros((4, 48, 56), np.uint8))
    result = good("locate", folder_of_runs / "of-images", tmp_path / "black.npz", "--out", tmp_path / "b.csv")
    assert "no location is found in 4 of 4 samples" in result.err
    assert (tmp_path / "b.csv").read_text() == ",".join(["index", "split", *BOX]) + "\n"
    before = sorted(tmp_path.iterdir())
    for out in ("crops", "crops.npz"):
        refused = call(
            "locate", "--crops", folder_of_runs / "of-images", tmp_path / "black.npz", "--out", tmp_path / out
        )
        assert refused.refused("no location is found in 4 of 4 samples", "nothing to crop")
    assert sorted(tmp_path.iterdir()) == before


# ---- crop -----------------------------------------------------------------------------------------------------------


def test_crops_of_arrays_are_images_in_folders_that_fit_takes(folder_of_runs, tmp_path):
    out = tmp_path / "crops"
    out.mkdir()  # an empty folder is accepted
    good("locate", "--crops", folder_of_runs / "of-images", folder_of_runs / "images.npz", "--out", out)
    assert len(files(out)) == 19 and (out / "train/1/01.png").exists() and (out / "test/0/00.png").exists()
    assert not (out / "train/1/03.png").exists()
    dataset, model = load_dataset(out), viewsmith.load(folder_of_runs / "of-images")
    assert dataset.x.shape == (19, 20, 20, 1) and dataset.split == "given"
    with np.load(folder_of_runs / "images.npz") as given:
        crops, found = model.crops(given["X_test"])
    assert found["sample"].tolist() == list(range(6))
    for k, crop in enumerate(crops):
        np.testing.assert_array_equal(np.asarray(Image.open(out / f"test/{k % 2}/{k:02d}.png")), crop)
    good("fit", out, "--epochs", 1, "--out", tmp_path / "run")


def test_crops_of_files_keep_their_names(folder_of_runs, tmp_path):
    good("locate", "--crops", folder_of_runs / "of-photos", folder_of_runs / "photos", "--out", tmp_path / "crops")
    dataset = load_dataset(folder_of_runs / "photos")
    split = np.full(20, "train")
    split[dataset.test_index] = "test"
    expected = {
        f"{split[k]}/{name.rpartition('.')[0]}.png" for k, name in enumerate(dataset.row_names) if "03" not in name
    }
    assert set(files(tmp_path / "crops")) == expected
    again = load_dataset(tmp_path / "crops")
    assert again.y.tolist() == ["cat" if name.split("/")[1] == "cat" else "dog" for name in again.row_names]


def test_crops_of_files_that_differ_only_in_their_extension(folder_of_runs, tmp_path):
    x, _ = bright(2, count=2)
    (tmp_path / "two").mkdir()
    for name, image in zip(("a.png", "a.bmp"), x, strict=True):
        Image.fromarray(image).save(tmp_path / "two" / name)
    good("locate", "--crops", folder_of_runs / "of-photos", tmp_path / "two", "--out", tmp_path / "crops", "--n", 2)
    assert set(files(tmp_path / "crops")) == {f"a.{kind}-{k}.png" for kind in ("png", "bmp") for k in (1, 2)}


def test_crops_as_arrays(folder_of_runs, tmp_path):
    good("locate", "--crops", folder_of_runs / "of-images", folder_of_runs / "images.npz", "--out", tmp_path / "c.npz")
    with np.load(tmp_path / "c.npz") as made, np.load(folder_of_runs / "images.npz") as given:
        assert sorted(made.files) == [f"{name}_{side}" for name in ("X", "index", "y") for side in ("test", "train")]
        crops, _ = viewsmith.load(folder_of_runs / "of-images").crops(given["X_train"])
        np.testing.assert_array_equal(made["X_train"], crops)
        np.testing.assert_array_equal(made["y_train"], given["y_train"][made["index_train"]])
    assert load_dataset(tmp_path / "c.npz").x.shape == (19, 20, 20)


def test_crops_of_sequences_are_fasta(folder_of_runs, tmp_path):
    out = tmp_path / "motifs.fasta"
    good("locate", "--crops", folder_of_runs / "of-dna", folder_of_runs / "seqs.fasta", "--out", out)
    given, made = load_dataset(folder_of_runs / "seqs.fasta"), load_dataset(out)
    assert made.split == "given" and made.y.tolist() == given.y.tolist()
    for name, crop, row, whole in zip(made.row_names, made.x, given.row_names, given.x, strict=True):
        source, place_in = name.split(":")
        start, end = map(int, place_in.split("-"))
        assert source == row and bytes(crop).rstrip(b"\0") == bytes(whole[start:end])
    good("locate", "--crops", folder_of_runs / "of-dna", folder_of_runs / "seqs.fasta", "--out", tmp_path / "m.npz")
    good("fit", tmp_path / "m.npz", "--epochs", 1, "--out", tmp_path / "run")


def test_sequences_without_names_are_named_by_their_number(folder_of_runs, tmp_path):
    np.savez(tmp_path / "x.npz", X=motifs(4)[0])
    good("locate", folder_of_runs / "of-dna", tmp_path / "x.npz", "--out", tmp_path / "x.bed")
    assert [line.split("\t")[0] for line in (tmp_path / "x.bed").read_text().splitlines()] == [
        f"train-{k}" for k in range(4)
    ]


# ---- embed ----------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("inference", ["expectation", "top", "uniform"])
def test_embed_averages_over_the_views_that_are_asked_for(folder_of_runs, tmp_path, inference):
    run, source = folder_of_runs / "of-images", folder_of_runs / "images.npz"
    good("embed", run, source, "--out", tmp_path / "h.npz", "--inference", inference)
    good("embed", run, source, "--out", tmp_path / "z.npz", "--inference", inference, "--output", "projection")
    good("embed", run, source, "--out", tmp_path / "h0.npz")
    model, x = viewsmith.load(run), load_dataset(source).x
    for name, output in (("h", "representation"), ("z", "projection")):
        expected = model.transform(x, output=output, inference=inference)
        with np.load(tmp_path / f"{name}.npz") as made:
            np.testing.assert_array_equal(made["H_train"], expected[:14])
            np.testing.assert_array_equal(made["H_test"], expected[14:])
    with np.load(tmp_path / "h.npz") as made, np.load(tmp_path / "h0.npz") as default:
        assert np.array_equal(made["H_test"], default["H_test"]) == (inference == "expectation")


def test_embed_refuses_an_average_that_a_run_does_not_have(folder_of_runs, tmp_path):
    out = ("--out", tmp_path / "h.npz", "--inference", "top")
    refused = call("embed", folder_of_runs / "other", folder_of_runs / "t.csv", *out)
    assert refused.refused("the run was fitted with contrastive, which has no distribution of views to average")


# ---- bad input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("command", "run", "source", "out", "expected"),
    [
        ("locate", "of-images", "images.npz", "b.bed", "for locations in images, a file name that ends in '.csv'"),
        ("locate", "other", "t.csv", "b.csv", "the run was fitted with contrastive"),
        ("locate --crops", "of-dna", "seqs.fasta", "c", "crops of dna, a file name that ends in '.fasta', '.fa', "),
        ("locate --crops", "of-images", "images.npz", "c.fasta", "crops of images, a new folder, or a file"),
        ("locate --crops", "of-images", "images.npz", "full", "not an empty folder"),
        ("locate", "of-images", "seqs.fasta", "b.csv", "images"),
    ],
)
def test_refused_commands_write_no_files(folder_of_runs, tmp_path, command, run, source, out, expected):
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "a").touch()
    before = files(tmp_path)
    assert call(*command.split(), folder_of_runs / run, folder_of_runs / source, "--out", tmp_path / out).refused(
        expected
    )
    assert files(tmp_path) == before and sorted(path.name for path in tmp_path.iterdir()) == ["full"]


def test_labels_that_cannot_be_in_folder_names_or_headers(folder_of_runs, tmp_path):
    x, _ = bright(20)
    np.savez(tmp_path / "x.npz", X=x, y=np.where(np.arange(20) % 2, "a/b", "c"))
    assert call("locate", "--crops", folder_of_runs / "of-images", tmp_path / "x.npz", "--out", tmp_path / "c").refused(
        "'a/b'", ".npz"
    )
    (tmp_path / "labels.tsv").write_text("".join(f"s{k}\tkind {k % 2}\n" for k in range(20)))
    labels = ("--labels", tmp_path / "labels.tsv")
    refused = call(
        "locate",
        "--crops",
        folder_of_runs / "of-dna",
        folder_of_runs / "seqs.fasta",
        "--out",
        tmp_path / "c.fa",
        *labels,
    )
    assert refused.refused("'kind 1'", "FASTA header")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["labels.tsv", "x.npz"]


def test_without_pillow(folder_of_runs, tmp_path, monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name, *a: None if name == "PIL" else find(name, *a))
    refused = call(
        "locate", "--crops", folder_of_runs / "of-images", folder_of_runs / "images.npz", "--out", tmp_path / "c"
    )
    assert refused.refused("pillow", "viewsmith[image]")
    good("locate", "--crops", folder_of_runs / "of-images", folder_of_runs / "images.npz", "--out", tmp_path / "c.npz")
