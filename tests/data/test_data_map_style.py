"""Map-style datasets of PyTorch and Hugging Face: collected in order, or refused with what to do."""

import re
from collections.abc import Sequence
from types import SimpleNamespace

import numpy as np
import pytest
import scipy.sparse
import torch
from torch.utils.data import ConcatDataset, DataLoader, Dataset, IterableDataset, Subset, TensorDataset

from refusals import refusal
from viewsmith import Contrastive
from viewsmith.data import map_style
from viewsmith.data.map_style import collect, is_map_style

TINY = {"epochs": 1, "batch_size": 8, "n_components": 8, "random_state": 0, "hidden": (8,)}
rng = np.random.default_rng(0)
ROWS = rng.normal(size=(16, 5)).astype(np.float32)
PICTURES = rng.integers(0, 256, (16, 12, 12, 3), dtype=np.uint8)


class Items(Dataset):
    """A dataset of the given items; like many, it does not raise IndexError at its end."""

    def __init__(self, items):
        self.items = list(items)

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        return self.items[number % len(self.items)]


class Stream(IterableDataset):
    def __iter__(self):
        return iter(ROWS)


class Columns:
    """As a dataset of Hugging Face: features by name, rows as dictionaries."""

    def __init__(self, features, **columns):
        self.features, self.columns_by_name = features, columns
        self.column_names = list(columns)

    def __len__(self):
        return len(next(iter(self.columns_by_name.values())))

    def __getitem__(self, number):
        return {name: column[number] for name, column in self.columns_by_name.items()}


def feature(kind, **attributes):
    return type(kind, (), attributes)()


# --- datasets of PyTorch


@pytest.mark.parametrize(
    "dataset",
    [
        Items(torch.from_numpy(ROWS)),
        TensorDataset(torch.from_numpy(ROWS), torch.arange(16)),
        Items((row, number) for number, row in enumerate(ROWS)),
        Items([torch.from_numpy(row), 1] for row in ROWS),
        ConcatDataset([TensorDataset(torch.from_numpy(part)) for part in (ROWS[:5], ROWS[5:])]),
        Subset(TensorDataset(torch.from_numpy(ROWS[::-1].copy())), range(15, -1, -1)),
    ],
    ids=["tensors", "tensor dataset", "pairs of arrays", "lists", "joined", "subset"],
)
def test_samples_are_collected_in_order_without_labels(dataset):
    assert is_map_style(dataset)
    made = collect(dataset)
    assert made.dtype == np.float32
    np.testing.assert_array_equal(made, ROWS)


@pytest.mark.parametrize(
    "item",
    [
        lambda p: p,
        lambda p: torch.from_numpy(p),
        lambda p: torch.from_numpy(p).permute(2, 0, 1),
        lambda p: torch.from_numpy(p).permute(2, 0, 1).float() / 255,
        lambda p: p / 255.0,
    ],
    ids=["array", "tensor", "channels first", "ToTensor", "floats"],
)
def test_every_form_of_images_becomes_the_same_pixels(item):
    made = collect(Items((item(picture), 0) for picture in PICTURES))
    assert made.dtype == np.uint8
    np.testing.assert_array_equal(made, PICTURES)


def test_pil_images_and_their_modes():
    image = pytest.importorskip("PIL.Image")
    np.testing.assert_array_equal(collect(Items(map(image.fromarray, PICTURES))), PICTURES)
    gray = [image.fromarray(picture[..., 0]) for picture in PICTURES]
    np.testing.assert_array_equal(collect(Items(gray)), PICTURES[..., 0])
    palette = [picture.convert("P") for picture in gray]
    assert collect(Items(palette)).shape == (16, 12, 12, 3)
    deep = PICTURES[..., 0].astype(np.uint16) * 200
    np.testing.assert_array_equal(collect(Items(map(image.fromarray, deep))), deep)
    some_gray = [image.fromarray(PICTURES[0]), *gray[1:]]
    assert collect(Items(some_gray)).shape == (16, 12, 12, 3)
    ghost = image.fromarray(np.dstack([PICTURES[0], PICTURES[1][..., :1]]))
    assert "item 0 of X has transparency (mode RGBA)" in refusal(collect, Items([ghost]))
    assert "item 1 of X is of uint16, and item 0 of uint8" in refusal(
        collect, Items([gray[0], image.fromarray(deep[0])])
    )


def test_recordings_are_taken_as_they_are():
    pieces = rng.normal(size=(8, 3, 20)).astype(np.float32)
    dataset = TensorDataset(torch.from_numpy(pieces), torch.zeros(8))
    np.testing.assert_array_equal(collect(dataset, "series"), pieces)
    assert "of recordings name modality='series'" in refusal(collect, Items(torch.from_numpy(pieces)[:, 0:2]))
    one, other = (Contrastive(**TINY, modality="series").fit(given) for given in (pieces, dataset))
    np.testing.assert_array_equal(one.transform(pieces), other.transform(dataset))


def test_strings_are_dna():
    letters = ["ACGT", "GGA"] * 4
    assert collect(Items((text, 1) for text in letters)) == letters


def test_many_samples_go_to_a_memory_map(monkeypatch):
    monkeypatch.setattr(map_style, "memory_limit", lambda: 64)
    made = collect(Items(torch.from_numpy(ROWS)))
    assert isinstance(made, np.memmap)
    np.testing.assert_array_equal(made, ROWS)


@pytest.mark.parametrize(
    ("rows", "dataset"),
    [
        (ROWS, TensorDataset(torch.from_numpy(ROWS), torch.arange(16))),
        (PICTURES, Items((torch.from_numpy(p).permute(2, 0, 1).float() / 255, 0) for p in PICTURES)),
        (PICTURES[..., 0], Items(torch.from_numpy(p[None, ..., 0]) for p in PICTURES)),
        (["ACGTTGCA", "GGATTA"] * 8, Items((text, 0) for text in ["ACGTTGCA", "GGATTA"] * 8)),
    ],
    ids=["vectors", "images", "gray images", "dna"],
)
def test_an_estimator_takes_a_dataset_as_it_takes_its_array(rows, dataset):
    one, other = Contrastive(**TINY).fit(rows), Contrastive(**TINY).fit(dataset)
    assert np.array_equal(one.transform(rows), other.transform(dataset))
    assert np.array_equal(other.transform(rows), other.transform(dataset))
    made = other.views(dataset, 2)
    assert np.array_equal(made.reshape(-1), one.views(rows, 2).reshape(-1)) and made.shape[:2] == (16, 2)


# --- datasets of Hugging Face


def test_the_column_of_images():
    image = pytest.importorskip("PIL.Image")
    dataset = Columns(
        {"image": feature("Image"), "label": feature("ClassLabel", dtype="int64")},
        image=[image.fromarray(picture) for picture in PICTURES],
        label=list(range(16)),
    )
    assert is_map_style(dataset)
    np.testing.assert_array_equal(collect(dataset), PICTURES)


@pytest.mark.parametrize("kind", ["Sequence", "List"])
def test_the_column_of_numbers(kind):
    dataset = Columns(
        {"label": feature("ClassLabel", dtype="int64"), "values": feature(kind, dtype="list")},
        label=list(range(16)),
        values=ROWS.tolist(),
    )
    np.testing.assert_allclose(collect(dataset), ROWS, rtol=1e-6)


def test_the_column_of_text():
    letters = ["ACGT", "GGAT"] * 4
    dataset = Columns(
        {"seq": feature("Value", dtype="string"), "label": feature("Value", dtype="int64")}, seq=letters, label=[0] * 8
    )
    assert collect(dataset) == letters


def test_a_class_in_words_beside_numbers_is_a_table():
    kinds = {"x": feature("Value", dtype="float64"), "c": feature("Value", dtype="string")}
    table = Columns(kinds, x=[0.5] * 8, c=["u", "v"] * 4)
    assert "X.to_pandas()" in refusal(collect, table)
    genes = ["".join(rng.choice(list("ACGT"), 20)) for _ in range(8)]
    assert collect(Columns(kinds, x=[0.5] * 8, c=genes)) == genes


class Column(Sequence):
    """As a column of a dataset of Hugging Face, which reads its items when they are asked for."""

    def __init__(self, items):
        self.source, self.column_name, self.items = None, "x", items

    def __len__(self):
        return len(self.items)

    def __getitem__(self, number):
        return self.items[number]


def test_a_column_is_its_items():
    image = pytest.importorskip("PIL.Image")
    np.testing.assert_array_equal(collect(Column([image.fromarray(picture) for picture in PICTURES])), PICTURES)
    np.testing.assert_allclose(collect(Column(ROWS.tolist())), ROWS, rtol=1e-6)
    assert collect(Column(["ACGT", "GGAT"])) == ["ACGT", "GGAT"]


def test_text_that_is_not_dna():
    towns = Columns({"town": feature("Value", dtype="string")}, town=["Oslo", "Rome"])
    message = refusal(collect, towns)
    assert "column town of X has text ('Oslo') that is neither DNA" in message and "X.to_pandas()" in message


def test_real_datasets_of_hugging_face():
    datasets, image = pytest.importorskip("datasets"), pytest.importorskip("PIL.Image")
    dataset = datasets.Dataset.from_dict({"values": ROWS.tolist(), "label": list(range(16))})
    np.testing.assert_allclose(collect(dataset), ROWS, rtol=1e-6)
    np.testing.assert_allclose(collect(dataset.with_format("torch")), ROWS, rtol=1e-6)
    pictures = datasets.Dataset.from_dict({"image": [image.fromarray(picture) for picture in PICTURES]})
    np.testing.assert_array_equal(collect(pictures.cast_column("image", datasets.Image())), PICTURES)
    assert collect(datasets.Dataset.from_dict({"seq": ["ACGT", "ggnt"], "label": [0, 1]})) == ["ACGT", "ggnt"]
    assert collect(datasets.Dataset.from_dict({"seq": ["MSKEL", "PQRS"]})) == ["MSKEL", "PQRS"]
    assert "DatasetDict of the splits train" in refusal(collect, datasets.DatasetDict({"train": dataset}))
    assert "iterable dataset" in refusal(collect, dataset.to_iterable_dataset())
    table = datasets.Dataset.from_dict({"age": [1.0, 2.0], "town": ["Oslo", "Rome"]})
    assert "X.to_pandas()" in refusal(collect, table)


# --- what is refused


@pytest.mark.parametrize(
    ("given", "says"),
    [
        (DataLoader(TensorDataset(torch.from_numpy(ROWS))), "DataLoader, which gives shuffled batches.*X.dataset"),
        (Stream(), "type Stream, an iterable dataset.*map-style"),
        (Columns({"a": feature("Image"), "b": feature("Image")}, a=[1], b=[2]), "'a' and 'b' of images.*choose"),
        (Columns({"n": feature("Value", dtype="int64")}, n=[1, 2]), "no column of images or sequences.*columns: n"),
        ({"train": Columns({}, n=[1]), "test": Columns({}, n=[1])}, "DatasetDict of the splits train, test"),
        (Items([]), "empty Items"),
        (Items([{"image": 1, "label": 2}]), "dictionaries with the keys image, label.*return the tensor"),
        (Items([torch.zeros(3), torch.zeros(4)]), r"item 1 of X has shape \(4,\), and item 0 \(3,\)"),
        (Items([object()]), "item 0 of X is <object.*expected a tensor"),
        (Items([torch.randn(3, 8, 8)]), "not 8-bit values / 255: leave normalization"),
        (SimpleNamespace(features={}, column_names=["a"]), "SimpleNamespace, an iterable dataset"),
    ],
    ids=lambda value: None if isinstance(value, str) else type(value).__name__,
)
def test_refusals_say_what_to_give(given, says):
    assert is_map_style(given)
    assert re.search(says, refusal(collect, given))
    assert re.search(says, refusal(Contrastive(**TINY).fit, given))


def test_arrays_tables_and_lists_are_none():
    pandas = pytest.importorskip("pandas")
    others = [pandas.DataFrame(ROWS), scipy.sparse.dok_matrix(ROWS), ["ACGT"], {"a": ROWS}, {}, None]
    for given in (ROWS, ROWS.tolist(), torch.from_numpy(ROWS), *others):
        assert not is_map_style(given)
