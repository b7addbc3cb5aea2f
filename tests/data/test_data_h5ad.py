"""Single-cell files: matrix, layers, labels, features by name, and representations written back."""

import errno
import json
import os
import sys
import tracemalloc

import numpy as np
import pandas as pd
import pytest
import scipy.sparse as sp

from refusals import refusal
from viewsmith.core import rows as core_rows
from viewsmith.core import rows as row_source
from viewsmith.core.errors import InputError, MissingExtra
from viewsmith.data import load_dataset, write_representations
from viewsmith.data.readers import h5ad

anndata, h5py = pytest.importorskip("anndata"), pytest.importorskip("h5py")

rng = np.random.default_rng(0)
CELLS, GENES = 20, 6
COUNTS = rng.poisson(1.5, size=(CELLS, GENES)).astype(np.float64)
COUNTS[3] = 0
NAMES = [f"gene{i}" for i in range(GENES)]
FORMS = {
    "dense": np.asarray,
    "csr": sp.csr_matrix,
    "csc": sp.csc_matrix,
    "csr array": sp.csr_array,
    "csc array": sp.csc_array,
}


def cells(x=COUNTS, names=NAMES, **layers):
    obs = pd.DataFrame(
        {
            "kind": pd.Categorical(["B", "T"] * (CELLS // 2)),
            "number": np.arange(CELLS) % 2,
            "text": ["b", "t"] * (CELLS // 2),
            "depth": np.linspace(0, 1, CELLS),
            "gaps": ["b", None] * (CELLS // 2),
        },
        index=[f"cell{i}" for i in range(CELLS)],
    )
    return anndata.AnnData(x, obs=obs, var=pd.DataFrame(index=list(names)), layers=layers)


@pytest.fixture
def save(tmp_path):
    def write(data, name="cells.h5ad"):
        data.write_h5ad(tmp_path / name)
        return tmp_path / name

    return write


# --- the matrix


@pytest.mark.parametrize(
    "form, dtype, block",
    [
        *((form, np.float64, 13) for form in FORMS),
        *((form, np.int32, 1) for form in ("dense", "csr", "csc")),
        *((form, np.float32, 4_000_000) for form in ("dense", "csr", "csc")),
    ],
)
def test_every_storage_becomes_the_same_float32_rows(save, monkeypatch, form, dtype, block):
    monkeypatch.setattr(h5ad, "_BLOCK", block)
    data = load_dataset(save(cells(FORMS[form](COUNTS.astype(dtype)))))
    assert data.x.dtype == np.float32 and data.x.flags.c_contiguous and data.modality == "vectors"
    np.testing.assert_array_equal(data.x, COUNTS)
    assert data.feature_names == NAMES and data.y is None and data.split == "none"


@pytest.mark.parametrize("form", ["dense", "csr", "csc"])
def test_a_layer_in_place_of_x(save, form):
    path = save(cells(np.zeros((CELLS, GENES)), counts=FORMS[form](COUNTS)))
    data = load_dataset(path, layer="counts")
    np.testing.assert_array_equal(data.x, COUNTS)
    schema = json.loads(json.dumps(data.schema))
    assert schema["layer"] == "counts"
    np.testing.assert_array_equal(load_dataset(path, schema=schema).x, COUNTS)
    assert "layer" not in load_dataset(save(cells())).schema
    assert "has no layer 'counts', given as layer; it has none" in refusal(load_dataset, save(cells()), schema=schema)


@pytest.mark.parametrize("form", ["csr", "csc", "dense"])
def test_reading_needs_little_more_memory_than_the_result(save, form, monkeypatch):
    monkeypatch.setattr(h5ad, "_BLOCK", 50_000)
    monkeypatch.setattr(row_source, "BLOCK_VALUES", 50_000)
    values = np.random.default_rng(0).random((2000, 500))
    made = anndata.AnnData(FORMS[form](np.where(values < 0.05, values, 0)))
    path = save(made)
    load_dataset(path)  # imports
    tracemalloc.start()
    data = load_dataset(path)
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    np.testing.assert_array_equal(data.x, made.to_df().to_numpy().astype(np.float32))
    # The check for values that are not finite takes a byte a value.
    assert data.x.nbytes <= peak < 1.7 * data.x.nbytes


def test_files_larger_than_memory_are_refused_before_they_are_read(save, monkeypatch):
    path = save(cells(sp.csr_matrix(COUNTS)))
    monkeypatch.setattr(core_rows, "memory_limit", lambda: 4 * CELLS * GENES - 1)
    message = refusal(load_dataset, path)
    assert "X in" in message and "20 x 6 values, would take 0.0 GiB" in message and "keep fewer genes" in message
    monkeypatch.setattr(core_rows, "memory_limit", lambda: 4 * CELLS * GENES)
    assert load_dataset(path).x.shape == (CELLS, GENES)
    monkeypatch.undo()
    assert 0 < core_rows.memory_limit() < 2**50


def test_missing_and_infinite_values_are_named(save):
    gap = COUNTS.copy()
    gap[2, 1] = np.nan
    assert "1 missing value (NaN) in 1 column: gene1;" in refusal(load_dataset, save(cells(gap)))
    assert np.isnan(load_dataset(save(cells(gap)), impute="median").x[2, 1])
    gap[2, 1] = np.inf
    assert "infinity" in refusal(load_dataset, save(cells(sp.csr_matrix(gap))))


def test_constant_genes_give_a_warning(save):
    with pytest.warns(UserWarning, match="1 constant column: gene5, ignored"):
        load_dataset(save(cells(COUNTS * [1, 1, 1, 1, 1, 0])))


# --- labels


@pytest.mark.parametrize(("label", "values"), [("kind", ["B", "T"]), ("number", [0, 1]), ("text", ["b", "t"])])
def test_labels_from_obs(save, label, values):
    data = load_dataset(save(cells()), label=label)
    assert data.y.tolist() == values * (CELLS // 2) and data.label_name == label and data.split == "stratified"
    again = load_dataset(save(cells()), schema=data.schema)
    np.testing.assert_array_equal(again.test_index, data.test_index)
    bare = cells()
    del bare.obs[label]
    assert load_dataset(save(bare), schema=data.schema).y is None
    assert load_dataset(save(bare), schema=data.schema, label="number" if label != "number" else "kind").y is not None


def test_numbers_from_obs_are_a_target(save):
    data = load_dataset(save(cells()), label="depth")
    assert (data.target, data.split, data.y.dtype) == ("number", "random", np.float64)
    np.testing.assert_array_equal(data.y, np.linspace(0, 1, CELLS))
    assert len(data.test_index) == CELLS // 5


@pytest.mark.parametrize(
    ("options", "part"),
    [
        ({"label": "knd"}, "obs has no column 'knd', given as label; did you mean kind?"),
        ({"label": "depth", "target": "class"}, "cannot split 20 labeled rows of 20 classes 80/20 by class"),
        ({"label": "text", "target": "number"}, "the label column 'text' in "),
        ({"label": "text", "target": "number"}, "holds 'b', expected numbers"),
        ({"layer": "count"}, "has no layer 'count', given as layer; did you mean counts?"),
        ({"layer": "zzz"}, "has no layer 'zzz', given as layer; its layers are: counts"),
        ({"one_hot": ["kind"]}, "leave one_hot out"),
        ({"modality": "images"}, "images are uint8"),
    ],
)
def test_options_refused(save, options, part):
    assert part in refusal(load_dataset, save(cells(counts=COUNTS)), **options)


# --- invalid files


def test_other_files_refused(save, tmp_path):
    path = tmp_path / "x.h5ad"
    for content in (b"", b"no h5ad", save(cells()).read_bytes()[:3000]):
        path.write_bytes(content)
        assert "x.h5ad as an .h5ad file; is it damaged" in refusal(load_dataset, path)
    import h5py

    with h5py.File(path, "w") as file:
        file["X"] = COUNTS
    assert "has no obs and no var; expected an .h5ad file written by anndata" in refusal(load_dataset, path)
    with h5py.File(path, "w") as file:
        file["X"] = COUNTS
        file["obs"] = file["var"] = np.arange(3)
    assert "obs or var is not a data frame" in refusal(load_dataset, path)


def test_matrices_refused(save):
    assert "holds no X" not in refusal(load_dataset, save(cells(None)))
    assert "has no X and no layers" in refusal(load_dataset, save(cells(None)))
    path, message = save(cells(None, counts=COUNTS)), "has no X; give one of its layers with layer (--layer): counts"
    assert message in refusal(load_dataset, path)
    with h5py.File(path, "a") as file:  # as anndata 0.12.0 writes it
        file.require_dataset("X", None, "f", data=h5py.Empty("f")).attrs["encoding-type"] = "null"
    assert message in refusal(load_dataset, path)
    assert "Complex data not supported" in refusal(load_dataset, save(cells(sp.csr_matrix(COUNTS * 1j))))
    assert "0 rows and 6 features; it is empty" in refusal(load_dataset, save(cells()[:0].copy()))
    assert "n_samples=1" in refusal(load_dataset, save(cells()[:1].copy()))


@pytest.mark.parametrize("form", ["csr", "csc"])
@pytest.mark.parametrize(("array", "value"), [("indptr", 2**30), ("indptr", 0), ("indices", 2**30), ("indices", -1)])
@pytest.mark.parametrize("where", ["X", "obsp/connectivities"])
def test_damaged_sparse_matrices(save, form, array, value, where):
    data = cells(FORMS[form](COUNTS))
    data.obsp["connectivities"] = FORMS[form](graph())
    path = save(data)
    with h5py.File(path, "r+") as file:
        numbers = file[where][array]
        numbers[len(numbers) // 2] = value
    neighbors = None if where == "X" else "connectivities"
    assert "is it damaged" in refusal(load_dataset, path, neighbors=neighbors)
    if form == "csr" and where == "X":
        with pytest.raises(InputError, match="is it damaged"):
            load_dataset(path, stream=True).x[:]


@pytest.mark.filterwarnings("ignore:Variable names are not unique")
def test_duplicate_gene_names(save):
    message = refusal(load_dataset, save(cells(names=["a", "b", "a", "c", "d", "e"])))
    assert "equal var_names: a; rename them with var_names_make_unique()" in message


def test_without_anndata(save, tmp_path, monkeypatch):
    path = save(cells())
    data = load_dataset(path)
    monkeypatch.setitem(sys.modules, "anndata", None)
    with pytest.raises(MissingExtra, match=r"reading an .h5ad file needs .* 'viewsmith\[omics\]'"):
        load_dataset(path)
    with pytest.raises(MissingExtra, match=r"writing an .h5ad file needs"):
        write_representations(tmp_path / "o.h5ad", data, np.zeros((CELLS, 2)))


# --- a later file


@pytest.mark.parametrize("form, block", [("dense", 13), ("csr", 13), ("csc", 13), ("csr", 1), ("csc", 4_000_000)])
def test_a_later_file_gives_the_same_genes_in_the_same_order(save, monkeypatch, form, block):
    monkeypatch.setattr(h5ad, "_BLOCK", block)
    schema = json.loads(json.dumps(load_dataset(save(cells())).schema))
    order = [4, 2, 0, 5, 1, 3]
    shuffled = cells(FORMS[form](COUNTS[:, order]), [NAMES[i] for i in order])
    later = load_dataset(save(shuffled, "later.h5ad"), schema=schema)
    np.testing.assert_array_equal(later.x, COUNTS)
    assert later.feature_names == NAMES and later.x.flags.c_contiguous
    wider = cells(FORMS[form](np.concatenate([COUNTS[:, :1] + 7, COUNTS], axis=1)), ["new", *NAMES])
    with pytest.warns(UserWarning, match="1 feature that the run does not know, ignored: new"):
        np.testing.assert_array_equal(load_dataset(save(wider, "w.h5ad"), schema=schema).x, COUNTS)


def test_a_later_file_that_lacks_genes(save):
    schema = load_dataset(save(cells())).schema
    message = refusal(load_dataset, save(cells(COUNTS[:, 2:], NAMES[2:]), "later.h5ad"), schema=schema)
    assert "lacks 2 features that the run was fitted on: gene0, gene1; it has gene2" in message
    assert "fill_value=0" in message
    message = refusal(load_dataset, save(cells(COUNTS, [*map(str.upper, NAMES)]), "later.h5ad"), schema=schema)
    assert "names of another kind" in message


def test_a_table_for_a_run_on_h5ad_and_the_reverse(save, tmp_path):
    path = save(cells())
    table = pd.DataFrame(COUNTS, columns=NAMES)
    table[NAMES[::-1]].to_csv(tmp_path / "t.csv", index=False)
    np.testing.assert_array_equal(load_dataset(tmp_path / "t.csv", schema=load_dataset(path).schema).x, COUNTS)
    schema = load_dataset(tmp_path / "t.csv").schema
    np.testing.assert_array_equal(load_dataset(path, schema=schema).x, COUNTS[:, ::-1])
    table.assign(town=["x", "y"] * 10).to_csv(tmp_path / "t.csv", index=False)
    schema = load_dataset(tmp_path / "t.csv", one_hot=["town"], strict=True).schema
    assert "one-hot encoded columns: town; give a table" in refusal(load_dataset, path, schema=schema)
    np.save(tmp_path / "a.npy", COUNTS)
    assert load_dataset(path, schema=load_dataset(tmp_path / "a.npy").schema).x.shape == (CELLS, GENES)


def test_a_table_in_obsm_is_refused(save):
    data = cells()
    data.obsm["scores"] = pd.DataFrame(COUNTS, index=data.obs_names, columns=NAMES)
    message = refusal(load_dataset, save(data), use_rep="scores")
    assert "obsm scores in" in message and "a table with named columns, expected a matrix" in message


# --- representations


H = rng.normal(size=(CELLS, 3)).astype(np.float32)


def test_representations_go_into_a_copy_of_the_file(save, tmp_path):
    path = save(cells(sp.csr_matrix(COUNTS), counts=COUNTS))
    before = path.read_bytes()
    os.chmod(path, 0o444)
    data = load_dataset(path, label="kind")
    write_representations(tmp_path / "o.h5ad", data, H)
    read = anndata.read_h5ad(tmp_path / "o.h5ad")
    np.testing.assert_array_equal(read.obsm["X_viewsmith"], H)
    assert read.obsm["X_viewsmith"].dtype == np.float32 and sp.issparse(read.X) and "counts" in read.layers
    np.testing.assert_array_equal(read.X.toarray(), COUNTS)
    assert list(read.obs) == list(cells().obs) and path.read_bytes() == before


def test_representations_can_be_written_into_the_source_file_twice(save):
    path = save(cells())
    data = load_dataset(path)
    write_representations(path, data, H)
    write_representations(path, data, H + 1)
    write_representations(path, data, H[:, :2], prefix="map")
    read = anndata.read_h5ad(path)
    np.testing.assert_array_equal(read.obsm["X_viewsmith"], H + 1)
    np.testing.assert_array_equal(read.obsm["X_viewsmith_map"], H[:, :2])


def test_a_file_without_obsm(save, tmp_path):
    import h5py

    path = save(cells())
    with h5py.File(path, "r+") as file:
        del file["obsm"]
    write_representations(tmp_path / "o.h5ad", load_dataset(path), H)
    np.testing.assert_array_equal(anndata.read_h5ad(tmp_path / "o.h5ad").obsm["X_viewsmith"], H)


@pytest.mark.parametrize("kind", ["external", "soft"])
def test_nothing_is_written_through_a_link(save, tmp_path, kind):
    import h5py

    data = load_dataset(path := save(cells()))
    with h5py.File(tmp_path / "other.h5", "w") as other:
        other.create_group("obsm")
    before = (tmp_path / "other.h5").read_bytes()
    with h5py.File(path, "r+") as file:
        del file["obsm"]
        target = "/obsm" if kind == "external" else "/uns"
        file["obsm"] = h5py.ExternalLink("other.h5", target) if kind == "external" else h5py.SoftLink(target)
    said = refusal(write_representations, tmp_path / "o.h5ad", data, H)
    assert f"obsm of {path} is a link to {target}" in said and ("other.h5" in said) == (kind == "external")
    assert (tmp_path / "other.h5").read_bytes() == before and not (tmp_path / "o.h5ad").exists()


@pytest.mark.parametrize("kind", ["external", "external of obs", "virtual", "raw"])
def test_nothing_is_read_of_other_files(save, tmp_path, kind):
    import h5py

    path, other = save(cells()), tmp_path / "secret.h5"
    values = COUNTS.astype(np.float32)
    with h5py.File(other, "w") as file:
        file["X"] = values
    with h5py.File(path, "r+") as file:
        if kind == "external of obs":
            file["obs/more"] = h5py.ExternalLink("secret.h5", "/X")
        else:
            del file["X"]
        if kind == "external":
            file["X"] = h5py.ExternalLink("secret.h5", "/X")
        elif kind == "virtual":
            layout = h5py.VirtualLayout(values.shape, values.dtype)
            layout[:] = h5py.VirtualSource(str(other), "X", values.shape)
            file.create_virtual_dataset("X", layout)
        elif kind == "raw":
            file.create_dataset("X", values.shape, values.dtype, external=[(str(other), 0, values.nbytes)])
    said = refusal(load_dataset, path)
    assert ("obs/more" if "obs" in kind else f"{path}: X") in said and "secret.h5" in said and "one file" in said


def test_writing_refused_without_output(save, tmp_path, monkeypatch):
    path = save(cells())
    data = load_dataset(path)
    names = sorted(os.listdir(tmp_path))
    assert "obsm needs (n, k)" in refusal(write_representations, tmp_path / "o.h5ad", data, H[:, None])
    save(cells()[:5].copy())
    assert "20 representations for 5 rows of" in refusal(write_representations, tmp_path / "o.h5ad", data, H)

    def full(descriptor):
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    save(cells())
    monkeypatch.setattr(os, "fsync", full)
    before = path.read_bytes()
    with pytest.raises(OSError, match="No space left"):
        write_representations(path, data, H)
    assert path.read_bytes() == before and sorted(os.listdir(tmp_path)) == names
    path.unlink()
    assert "but the rows are from" in refusal(write_representations, tmp_path / "o.h5ad", data, H)


# --- a neighbor graph in obsp


def graph():
    """Graph in which each cell is a neighbor of the next two cells."""
    found = sp.lil_matrix((CELLS, CELLS), dtype=np.float32)
    for i in range(CELLS):
        found[i, [(i + 1) % CELLS, (i + 2) % CELLS]] = 0.5
    return found.tocsr()


def test_a_graph_of_obsp_is_restricted_to_the_train_rows(save):
    data = cells()
    data.obsp["connectivities"] = graph()
    dataset = load_dataset(save(data), label="kind", neighbors="connectivities")
    assert (dataset.neighbors != graph()).nnz == 0
    train = dataset.train_index
    np.testing.assert_array_equal(dataset.fit_neighbors(False).toarray(), graph().toarray()[train][:, train])
    assert dataset.fit_neighbors(True).shape == (CELLS, CELLS)
    assert load_dataset(save(data)).neighbors is None and load_dataset(save(data)).fit_neighbors(False) is None
    assert load_dataset(save(data), neighbors="connectivities").fit_neighbors(False).shape == (CELLS, CELLS)


def test_a_missing_or_dense_graph_is_refused(save, tmp_path):
    data = cells()
    assert "has none" in refusal(load_dataset, save(data), neighbors="connectivities")
    data.obsp["connectivities"], data.obsp["full"] = graph(), graph().toarray()
    path = save(data)
    assert "connectivities" in refusal(load_dataset, path, neighbors="connectivity")
    assert "not sparse" in refusal(load_dataset, path, neighbors="full")
    np.save(tmp_path / "x.npy", COUNTS)
    assert "leave neighbors out" in refusal(load_dataset, tmp_path / "x.npy", neighbors="connectivities")
