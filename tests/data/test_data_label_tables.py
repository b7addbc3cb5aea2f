"""Tables of labels: of samples by their names or a part of these, and of objects of masks."""

import numpy as np
import pandas as pd
import pytest
from PIL import Image

from refusals import refusal
from viewsmith.data import load_dataset
from viewsmith.data.label_tables import rows_of_names, table_of_names
from viewsmith.data.options import DataOptions

rng = np.random.default_rng(0)


def labels(tmp_path, names, **columns):
    """The column `y` of a table, for the names; None if it is not one of theirs."""
    file = tmp_path / "labels.csv"
    pd.DataFrame(columns).to_csv(file, index=False)
    return table_of_names(names, DataOptions(labels=file, label="y"), None).y.tolist()


def test_a_table_whose_first_line_has_values(tmp_path, capsys):
    """As the REFERENCE.csv of PhysioNet, or numbers of patients, with which names begin."""
    names = [f"a{i:04d}.wav" for i in range(9)]
    (file := tmp_path / "labels.csv").write_text("".join(f"{name[:5]},{(-1) ** i}\n" for i, name in enumerate(names)))

    def of(known, label):
        return table_of_names(known, DataOptions(labels=file, label=label), None)[label].tolist()

    assert of(names, "1") == [1, -1] * 4 + [1]
    assert "the first line has values, as the others: columns are named 0 to 1" in capsys.readouterr().err
    file.write_text("".join(f"{101 + i},{'COPD' if i % 2 else 'healthy'}\n" for i in range(8)))
    assert (
        of([f"{101 + i // 2}_1b{i % 2}_Al.wav" for i in range(16)], "1") == ["healthy", "healthy", "COPD", "COPD"] * 4
    )
    assert "labels by 0, with which names begin: 8 rows for 16 samples" in capsys.readouterr().err


def test_a_label_that_is_asked_for_is_a_name_of_a_column(tmp_path):
    """Also if it is a value, too."""
    assert labels(tmp_path, ["a.tif", "b.tif"], file=["b", "a"], y=["y", "n"]) == ["n", "y"]


def test_names_with_other_folders_and_endings(tmp_path):
    names = ["a/x1.tif", "b/x2.tif", "x3.tif"]
    for given in (names, ["x1.tif", "x2.tif", "x3.tif"], ["x1", "x2", "x3"], ["/d/x1.png", "C:\\d\\x2.png", "x3.png"]):
        assert labels(tmp_path, names, y=["r", "p", "q"], file=given[::-1]) == ["q", "p", "r"]
    found = labels(tmp_path, names, file=["x1", "x3", "z"], y=[1, 3, 4])
    assert found[::2] == [1, 3] and np.isnan(found[1])
    lanes = ["ACGTACGTAA-1", "ACGTACGTAC-1", "ACGTACGTAC-2"]
    assert labels(tmp_path, lanes[:2], cell=[lanes[1][:-2], lanes[0][:-2]], y=[1, 2]) == [2, 1]
    for known in (["u", "v"], [lanes[1][:-2], lanes[0][:-2]]):  # one of which may be of either lane
        with pytest.raises(Exception, match="no column with the names of all samples"):
            labels(tmp_path, lanes, file=known, y=[1, 2])


@pytest.mark.parametrize("change", ["{0} ", "{0}.fasta", "sEQ_{1}", " seq_{1}"])
def test_names_in_other_case_and_with_blanks(tmp_path, change):
    """Of samples, of records by a table and a list without names of columns, and of rows of a table."""
    given = pd.DataFrame({"id": [change.format(f"Seq_{i}", i) for i in range(12)], "y": list("uvw") * 4})
    assert labels(tmp_path, [f"Seq_{i}" for i in range(12)], **given) == given.y.tolist()
    (tmp_path / "x.fa").write_text("".join(f">Seq_{i}\nACGTACGTAC{'ACGT'[i % 4]}\n" for i in range(12)))
    pd.DataFrame({"name": [f"Seq_{i}" for i in range(12)], "v": rng.normal(size=12)}).to_csv(tmp_path / "x.csv")
    given.to_csv(tmp_path / "y.tsv", sep="\t", index=False, header=False)
    options = {"labels": tmp_path / "labels.csv", "label": "y", "few_labels": True}
    for data in (
        load_dataset(tmp_path / "x.fa", **options),
        load_dataset(tmp_path / "x.fa", labels=tmp_path / "y.tsv", few_labels=True),
        load_dataset(tmp_path / "x.csv", **options),
    ):
        assert data.y.tolist() == given.y.tolist()


def test_names_that_differ_in_their_case_alone_are_different(tmp_path):
    names, given = ["a", "A", "x1", "x2", "x3"], ["A", "X1", "X2", "X3"]
    assert rows_of_names(names, given).tolist() == [-1, 0, -1, -1, -1]
    assert rows_of_names(given, names).tolist() == [1, -1, -1, -1]
    found = labels(tmp_path, names, id=given, y=[*"uvvu"])
    assert found[1] == "u" and [each == each for each in found] == [False, True, False, False, False]
    with pytest.raises(Exception, match=r"rows with different y of 1 sample, such as x1 \(u, v\)"):
        labels(tmp_path, ["X1.png", "X2.png", "X3.png"], id=["x1", "x2", "x3", "X1"], y=[*"uvvv"])


def test_names_in_several_rows(tmp_path, capsys):
    names = ["s0", "s1", "s2"]
    assert labels(tmp_path, names, part=[1, 2, 1, 1], id=["s1", "s1", "s0", "s2"], y=[*"aabc"]) == ["b", "a", "c"]
    assert "labels.csv: 1 row more than one for a sample, with equal y" in capsys.readouterr().err
    with pytest.raises(Exception, match=r"rows with different y of 1 sample, such as s1 \(a, c\): expected one"):
        labels(tmp_path, names, id=["s1", "s1", "s0", "s2"], y=[*"acba"])
    # A column without repeated names comes first.
    assert labels(tmp_path, names, kind=["s1", "s1", "s2"], id=["s0", "s1", "s2"], y=[*"abc"]) == [*"abc"]


@pytest.mark.parametrize(
    ("more", "part"),
    [
        ({"a.mp3": "x", "a.flac": "y"}, "labels.csv has rows with different kind of 1 sample, such as a (x, y)"),
        ({"A.wav": "x", "A.WAV": "y"}, "labels.csv has rows with different kind of 1 sample, such as a (x, y)"),
        ({"p/a.npy": "x", "q/a.npy": "y"}, "labels.csv has rows with different kind of 1 sample, such as a.npy (x, y)"),
        ({"a.mp3": "x", "a.flac": "x"}, "1 row more than one for a sample, with equal kind"),
        ({}, "labels.csv has no row of 1 sample of 11, such as a.npy"),
    ],
)
def test_a_table_in_the_folder_that_contradicts_itself_is_told(tmp_path, capsys, recwarn, more, part):
    for name in "abcdefghijk":
        np.save(tmp_path / f"{name}.npy", rng.normal(size=9))
    rows = {f"{name}.npy": "xy"[i % 2] for i, name in enumerate("bcdefghijk")} | more
    (tmp_path / "labels.csv").write_text("file,kind\n" + "".join(f"{key},{kind}\n" for key, kind in rows.items()))
    if part.endswith(")"):
        assert part in refusal(load_dataset, tmp_path, label="kind", modality="series")
    else:
        y = load_dataset(tmp_path, label="kind", modality="series").y.tolist()
        assert y == ["x" if more else "", *(list("xy") * 5)]
        assert part in capsys.readouterr().err + " ".join(str(w.message) for w in recwarn)


@pytest.mark.parametrize("lines", [True, False])
def test_labels_in_json(tmp_path, lines):
    file = tmp_path / ("l.jsonl" if lines else "l.json")
    pd.DataFrame({"id": ["01", "02"], "y": ["a", "b"]}).to_json(file, orient="records", lines=lines)
    assert table_of_names(["02", "01"], DataOptions(labels=file, label="y"), None).y.tolist() == ["b", "a"]
    file.write_text("{")
    assert "as a table of labels" in refusal(table_of_names, ["02"], DataOptions(labels=file, label="y"), None)


def test_measures_are_no_names(tmp_path):
    names = ["1.tif", "2.tif", "3.tif"]
    assert labels(tmp_path, names, area=[3.5, 2.5, 1.5], id=[1, 2, 3], y=[7, 8, 9]) == [7, 8, 9]
    with pytest.raises(Exception, match="no column with the names of all samples"):
        labels(tmp_path, names, area=[3.5, 2.5, 1.5], y=[7, 8, 9])


def test_labels_of_wells_and_other_parts_of_names(tmp_path, capsys):
    names = ["p1/B02_s1.tif", "p1/B02_s2.tif", "p1/C11_s1.tif", "p2/B02_s1.tif"]
    assert labels(tmp_path, names[:3], Well=["C11", "B2"], y=["drug", "None"]) == ["None", "None", "drug"]
    said = capsys.readouterr().err
    assert "labels by Well, which is a part of the names: 2 rows for 3 samples" in said
    assert "--groups Well --split-groups holds whole ones out" in said
    table_of_names(names[:3], DataOptions(labels=tmp_path / "labels.csv", label="y", groups="Well"), None)
    assert "both parts of the split" not in capsys.readouterr().err
    of_plates = {"plate": ["p1", "p1", "p2"], "Well": ["B02", "C11", "B02"], "y": [1, 2, 3]}
    assert labels(tmp_path, names, **of_plates) == [1, 1, 2, 3]
    # A number may be a part of a name by chance, and each name has one row.
    for column in (["1", "2"], ["B02", "s1"]):
        with pytest.raises(Exception, match="no column with the names"):
            labels(tmp_path, names, Well=column, y=[1, 2])


@pytest.fixture
def plate(tmp_path):
    """Two images, and masks of the objects 1 and 3."""
    tifffile = pytest.importorskip("tifffile")
    mask = np.zeros((40, 40), np.uint8)
    mask[4:10, 4:10], mask[20:28, 20:28] = 1, 3
    for name in ("a", "b"):
        for place, image in (("images", rng.integers(0, 4000, (40, 40), dtype=np.uint16)), ("masks", mask)):
            (tmp_path / place).mkdir(exist_ok=True)
            tifffile.imwrite(tmp_path / place / f"{name}.tif", image)
    return tmp_path


def test_labels_of_objects(plate, capsys):
    images, file = plate / "images", plate / "Nuclei.csv"
    options = {"masks": plate / "masks", "label": "phase", "few_labels": True}
    table = pd.DataFrame({"ObjectNumber": [3, 1, 3], "FileName_DNA": ["b.tif", "a.tif", "a.tif"], "phase": [*"xyz"]})
    table.to_csv(file, index=False)
    assert "has 1 missing value" in refusal(load_dataset, images, labels=file, groups="FileName_DNA", **options)
    data = load_dataset(images, labels=file, **options)
    assert data.row_names == ["a.tif#1", "a.tif#3", "b.tif#1", "b.tif#3"] and data.y.tolist() == ["y", "z", "", "x"]
    assert "3 of 4 objects by ObjectNumber" in capsys.readouterr().err
    later = load_dataset(images, masks=plate / "masks", schema=data.schema)
    assert later.y is None and data.schema["label"] == "phase"
    assert "--label ObjectNumber or FileName_DNA or phase" in refusal(load_dataset, images, labels=file)
    # Images by their number, whose names are in a table beside.
    table.assign(ImageNumber=[7, 5, 5]).drop(columns="FileName_DNA").to_csv(file, index=False)
    assert "no row for each image or object" in refusal(load_dataset, images, labels=file, **options)
    pd.DataFrame({"ImageNumber": [5, 7], "FileName_DNA": ["a.tif", "b.tif"]}).to_csv(plate / "Image.csv", index=False)
    assert load_dataset(images, labels=file, **options).y.tolist() == ["y", "z", "", "x"]
    # One image needs no names; the label is no number of an object.
    pd.DataFrame({"label": [1, 3], "id": [3, 1]}).to_csv(file, index=False)
    one = load_dataset(images / "a.tif", masks=plate / "masks", labels=file, label="label", schema=data.schema)
    assert one.y.tolist() == [3, 1]
    table.assign(FileName_DNA="a.tif").to_csv(file, index=False)
    assert "several rows of the object 3 of a.tif" in refusal(load_dataset, images, labels=file, **options)
    table.assign(ObjectNumber=[8, 9, 10]).to_csv(file, index=False)
    assert "no number of its column ObjectNumber is one" in refusal(load_dataset, images, labels=file, **options)
    # A table of images has labels of all objects of each.
    pd.DataFrame({"file": ["b.tif", "a.tif"], "phase": ["p", "q"], "number": [1, 3]}).to_csv(file, index=False)
    assert load_dataset(images, labels=file, **options).y.tolist() == ["q", "q", "p", "p"]


def test_tables_with_names_of_channel_files(plate):
    for name in ("a", "b"):
        for place in ("images", "masks"):
            (plate / place / f"{name}.tif").rename(plate / place / f"{name}{'_w1' if place == 'images' else ''}.tif")
    options = {"channel_files": "{well}_w{channel}.tif", "label": "phase", "few_labels": True}
    pd.DataFrame({"FileName_DNA": ["b_w1.tif", "a_w1.tif"], "phase": ["p", "q"]}).to_csv(plate / "y.csv", index=False)
    schema = load_dataset(plate / "images", channel_files="{well}_w{channel}.tif").schema
    found = load_dataset(plate / "images", labels=plate / "y.csv", schema=schema, **options)
    assert found.y.tolist() == ["q", "p"]
    table = pd.DataFrame({"ImageNumber": [1, 2, 2], "ObjectNumber": [1, 1, 3], "phase": [*"uvw"]})
    table.to_csv(plate / "MyExpt_Nuclei.csv", index=False)
    images = pd.DataFrame({"FileName_DNA": ["b_w1.tif", "a_w1.tif"], "ImageNumber": [1, 2]})
    images.to_csv(plate / "MyExpt_Image.csv", index=False)
    options |= {"labels": plate / "MyExpt_Nuclei.csv", "masks": plate / "masks"}
    assert load_dataset(plate / "images", **options).y.tolist() == ["v", "w", "u", ""]


def test_labels_of_a_table_are_in_another(tmp_path, monkeypatch, capsys, recwarn):
    """Of its rows by a column of names; where its columns are samples, the line runs as it stands."""
    monkeypatch.chdir(tmp_path)
    x = pd.DataFrame(
        rng.integers(0, 9, (6, 12)), index=[f"otu{i}" for i in range(6)], columns=[f"s{i}" for i in range(12)]
    )
    x.assign(taxonomy="k__Bacteria; p__").to_csv("otus.txt", sep="\t", index_label="#OTU ID")
    x.T.to_csv("samples.csv", index_label="name")
    y = pd.DataFrame({"#SampleID": x.columns, "pH": range(12), "site": list("abba") * 3})
    y.iloc[::-1].to_csv("map.tsv", sep="\t", index=False)
    for name in ("otus.txt", "samples.csv"):
        assert "without the column of the labels: --label #SampleID or pH or site" in refusal(
            load_dataset, name, labels="map.tsv"
        )
    message = refusal(load_dataset, "otus.txt", labels="map.tsv", label="site")
    assert "its columns are samples, by #SampleID" in message
    exec(message.partition('python -c "')[2].partition('", and give ')[0], {})
    out = message.partition('", and give ')[2].split()[0]
    found = [load_dataset(out, label="site", drop=[pd.read_csv(out).columns[0]])]
    pd.read_csv("samples.csv").to_parquet("samples.parquet")
    found += [load_dataset(name, labels="map.tsv", label="site") for name in ("samples.csv", "samples.parquet")]
    assert "the labels of map.tsv are told by name" in capsys.readouterr().err
    for data in found:
        assert data.y.tolist() == y.site.tolist()
        np.testing.assert_array_equal(data.x, x.T.to_numpy())
    again = load_dataset("samples.csv", labels="map.tsv", schema=data.schema)
    assert again.y.tolist() == y.site.tolist()
    assert load_dataset("samples.csv", schema=data.schema).y is None
    grouped = load_dataset("samples.csv", labels="map.tsv", label="pH", groups="site", target="number")
    assert grouped.groups.tolist() == y.site.tolist() and grouped.y.tolist() == list(range(12))
    y.iloc[:9].to_csv("fewer.csv", index=False)
    recwarn.clear()
    assert load_dataset("samples.csv", labels="fewer.csv", label="site", few_labels=True).y[9:].tolist() == [""] * 3
    assert any("has no row of 3 rows of 12, such as s9" in str(w.message) for w in recwarn)
    assert "map.tsv has no column kind; its columns are" in refusal(
        load_dataset, "samples.csv", labels="map.tsv", label="kind"
    )
    pd.DataFrame({"id": ["u", "v"], "site": ["a", "b"]}).to_csv("others.csv", index=False)
    for name in ("otus.txt", "samples.csv"):
        assert "have no column with the same names" in refusal(load_dataset, name, labels="others.csv", label="site")


N = 12
KINDS = list("abbcab") * 2


def of_index(name):
    """A table of samples whose kinds are `KINDS`, with names in a column, and labels in another order, both with the
    numbers of their rows before, as tables have that pandas wrote."""
    names = (
        [f"{i:03d}" for i in range(N)] if name == "code" else range(N) if name == "id" else [f"s{i}" for i in range(N)]
    )
    frame = pd.DataFrame({name: names, "v": rng.normal(size=N), "w": rng.normal(size=N)})
    labels = pd.DataFrame({name: names, "kind": KINDS}).iloc[rng.permutation(N)].reset_index(drop=True)
    frame.to_csv("x.csv")
    labels.to_csv("y.csv")
    return frame, labels


@pytest.mark.parametrize("name", ["sample", "id", "code"])
def test_numbers_of_rows_are_no_names(tmp_path, monkeypatch, capsys, recwarn, name):
    monkeypatch.chdir(tmp_path)
    of_index(name)
    assert load_dataset("x.csv", labels="y.csv", label="kind", few_labels=True).y.tolist() == KINDS
    assert f"are told by {name}" in capsys.readouterr().err
    pd.read_csv("x.csv").drop(columns=name).to_csv("numbered.csv", index=False)
    load_dataset("numbered.csv", labels="y.csv", label="kind", few_labels=True)
    assert any("told by Unnamed: 0, in which both have numbers" in str(w.message) for w in recwarn)


def test_labels_that_are_in_both_tables_or_neither_are_told(tmp_path, monkeypatch, recwarn):
    monkeypatch.chdir(tmp_path)
    frame, labels = of_index("sample")
    frame.assign(kind=KINDS[::-1]).to_csv("both.csv", index=False)
    assert load_dataset("both.csv", labels="y.csv", label="kind", few_labels=True).y.tolist() == KINDS
    assert "both.csv has kind, too: that of y.csv is used" in [str(w.message) for w in recwarn]
    assert "y.csv has no column v" in refusal(load_dataset, "x.csv", labels="y.csv", label="v")
    pd.concat([labels, labels[:2].assign(kind="d")]).to_csv("twice.csv", index=False)
    said = refusal(load_dataset, "x.csv", labels="twice.csv", label="kind")
    assert f"twice.csv has rows with different kind of 2 samples, such as {labels['sample'][0]}" in said
    labels.iloc[[0, *range(N)]].to_csv("again.csv", index=False)
    assert load_dataset("x.csv", labels="again.csv", label="kind", few_labels=True).y.tolist() == KINDS
    pd.concat([frame, frame[:2]]).to_csv("x2.csv", index=False)
    assert "x2.csv has several rows of s0 in sample" in refusal(load_dataset, "x2.csv", labels="y.csv", label="kind")


@pytest.fixture
def split(tmp_path):
    """A folder of images in train and test, whose files have the same names, and the class of each."""
    y = {part: [f"c{i % 2}" for i in range(n)] for part, n in (("train", 20), ("test", 6))}
    for part, of in y.items():
        (tmp_path / "x" / part).mkdir(parents=True)
        for i in range(len(of)):
            Image.fromarray(rng.integers(0, 255, (8, 8, 3), np.uint8)).save(tmp_path / "x" / part / f"{i:02d}.png")
    return tmp_path / "x", y


@pytest.mark.parametrize("file", ["{0}/metadata.csv", "{0}/metadata.jsonl", "{0}.csv", "{0}Labels.csv"])
def test_tables_of_the_parts_of_a_split(split, recwarn, file):
    """As data sets of images on Hugging Face have them, and competitions."""
    folder, y = split
    for part, of in y.items():
        table = pd.DataFrame({"file_name": [f"{i:02d}.png" for i in range(len(of))], "y": of})[::-1]
        path = folder / file.format(part)
        table.to_csv(path, index=False) if path.suffix == ".csv" else table.to_json(path, orient="records", lines=True)
    data = load_dataset(folder, label="y")
    assert [str(each.message) for each in recwarn] == [] and data.split == "given"
    assert data.y[data.train_index].tolist() == y["train"] and data.y[data.test_index].tolist() == y["test"]


def test_paths_of_a_table_that_is_above_the_folder(split, tmp_path):
    folder, y = split
    names = [f"data/x/{part}/{i:02d}.png" for part in ("test", "train") for i in range(len(y[part]))]
    pd.DataFrame({"file_name": names, "y": y["test"] + y["train"]}).to_csv(tmp_path / "all.csv", index=False)
    assert load_dataset(folder, labels=tmp_path / "all.csv", label="y").y_train.tolist() == y["train"]


@pytest.mark.parametrize("given", [True, False])
@pytest.mark.parametrize("names", ["{0}", "{0:02d}.png"])
def test_a_competition_has_no_labels_of_its_test_images(split, recwarn, capsys, given, names):
    """So labeled ones are held out; the form to be filled in is no table of labels."""
    folder, y = split
    if names == "{0}":
        for part in y:
            for file in (folder / part).iterdir():
                file.rename(file.with_name(f"{int(file.stem)}.png"))
    table = pd.DataFrame({"id": [names.format(i) for i in range(20)], "y": y["train"]})
    table.to_csv(folder / "trainLabels.csv", index=False)
    table[:6].assign(y="c0").to_csv(folder / "sampleSubmission.csv", index=False)
    load_dataset(folder)
    assert f"--labels {folder / 'trainLabels.csv'} --label COLUMN" in str(recwarn.pop().message)
    data = load_dataset(folder, label="y", **{"labels": folder / "trainLabels.csv"} if given else {})
    assert "no image of its test folder has a label: a fifth of the labeled" in capsys.readouterr().err
    assert data.split == "stratified" and sorted(data.y_test.tolist()) == ["c0", "c0", "c1", "c1"]
    labels_of = dict(zip(data.row_names, data.y.tolist(), strict=True))
    assert [of for name, of in sorted(labels_of.items(), key=lambda x: int(x[0].split("/")[1][:-4])) if of] == y[
        "train"
    ]
    again = load_dataset(folder, schema=data.schema)
    assert again.y.tolist() == data.y.tolist() and (again.test_index == data.test_index).all()


@pytest.mark.parametrize("codes", [["01", "02"], ["u", "v"]])
def test_a_column_of_labels_named_self(tmp_path, monkeypatch, codes):
    monkeypatch.chdir(tmp_path)
    frame, labels = of_index("sample")
    labels["self"] = codes * (N // 2)
    labels.to_csv("y.csv", index=False)
    found = load_dataset("x.csv", labels="y.csv", label="self", few_labels=True).y.tolist()
    assert found == labels.set_index("sample")["self"][frame["sample"]].tolist()


def test_labels_in_another_encoding(tmp_path):
    names = [f"x{i}" for i in range(8)]
    pd.DataFrame({"name": names, "a": np.arange(8.0), "b": np.arange(8.0) ** 2}).to_csv(tmp_path / "t.csv", index=False)
    table = pd.DataFrame({"name": names, "größe": ["klein", "größer"] * 4})
    for encoding in ("latin-1", "utf-8"):  # the second one is read as such, whatever was given
        table.to_csv(tmp_path / "l.csv", index=False, encoding=encoding)
        given = {"labels": tmp_path / "l.csv", "label": "größe"}
        assert set(load_dataset(tmp_path / "t.csv", **given, encoding="latin-1").y) == {"klein", "größer"}
        if encoding == "latin-1":
            assert "l.csv is not UTF-8: give its encoding (--encoding" in refusal(
                load_dataset, tmp_path / "t.csv", **given
            )


@pytest.mark.parametrize("ending", [".csv", ".txt", ".xlsx"])
def test_names_that_are_hashes(tmp_path, ending):
    """pandas ends the process at names such as 7e123456789123450, as numbers."""
    names = [f"7e12345678912345{i}" for i in range(8)]
    table = pd.DataFrame({"id": names, "code": [f"0{i}" for i in range(8)], "y": range(8)})
    file = tmp_path / f"labels{ending}"
    if ending == ".xlsx":
        table.to_excel(file, index=False)
    else:
        counted = "8\n" if ending == ".txt" else ""
        file.write_text(counted + table.to_csv(index=False, sep=" " if counted else ","))
    found = table_of_names(names, DataOptions(labels=file, label="y"), None)
    assert found.id.tolist() == names and found.y.tolist() == list(range(8))
    assert found.code.tolist() == table.code.tolist()


def test_parts_of_names_are_labels_and_groups(tmp_path, capsys):
    for i in range(16):
        name = f"{'walk' if i % 2 else 'run'}_s{i % 4}_{i:02d}.npy"
        np.save(tmp_path / name, rng.normal(size=(2, 60)))
    load_dataset(tmp_path, modality="series")
    said = "parts of the names of files may be labels or groups: --label name:0 (run, walk) or name:1 (s0, s1, s2 and 1"
    assert said in capsys.readouterr().err
    data = load_dataset(tmp_path, modality="series", label="name:0", groups="name:1")
    assert data.y.tolist() == ["run"] * 8 + ["walk"] * 8 and set(data.groups) == {"s0", "s1", "s2", "s3"}
    assert "parts of" not in capsys.readouterr().err
    for column in ("name:3", "name:-1", "name:x", "word:"):
        assert "has 3 parts, run, s0, 00" in refusal(load_dataset, tmp_path, modality="series", label=column)
    table = tmp_path / "labels.csv"
    table.write_text("file,name:0\n" + "".join(f"{name},{'uv'[i % 2]}\n" for i, name in enumerate(data.row_names)))
    assert set(load_dataset(tmp_path, modality="series", label="name:0").y) == {"u", "v"}


def test_parts_of_names_of_new_samples_are_those_of_the_fit(tmp_path):
    """Numbers stay where each new file has another one; names without the part have no labels."""

    def images(folder, names):
        (tmp_path / folder).mkdir()
        for name in names:
            Image.fromarray(rng.integers(0, 256, (8, 8), dtype=np.uint8)).save(tmp_path / folder / f"{name}.png")
        return tmp_path / folder

    fitted = load_dataset(images("fit", [f"{i:02d}_p{i % 4}" for i in range(16)]), label="name:1")
    assert set(fitted.y) == {"p0", "p1", "p2", "p3"}
    new = load_dataset(images("new", ["00_p0", "01_p1", "02_p2"]), schema=fitted.schema)
    assert new.y.tolist() == ["p0", "p1", "p2"]
    assert load_dataset(images("others", ["a", "b"]), schema=fitted.schema).y is None


@pytest.mark.parametrize("name", ["{kind}{i}.png", "{kind}.{i}.png"])
def test_images_whose_names_begin_with_labels(tmp_path, capsys, name):
    """Numbers of files that are written at the label are none of it."""
    for i in range(16):
        file = tmp_path / name.format(kind=["cat", "dog"][i % 2], i=i)
        Image.fromarray(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8)).save(file)
    load_dataset(tmp_path)
    column = "word:0" if name == "{kind}{i}.png" else "name:0"
    assert f"--label {column} (cat, dog)" in capsys.readouterr().err
    assert load_dataset(tmp_path, label=column).y.tolist() == ["cat"] * 8 + ["dog"] * 8
    if column == "word:0":
        assert "such as cat0: word:0 leaves" in refusal(load_dataset, tmp_path, label="name:0")


def test_a_split_of_whole_files_holds_files_with_labels_out(tmp_path):
    """Of a few labeled recordings some are test rows; the others stay for training."""
    for i in range(10):
        np.save(tmp_path / f"f{i}.npy", rng.normal(size=(2, 100)))
    kinds = [f"f{i}.npy,{'ab'[i % 2] if i < 4 else ''}\n" for i in range(10)]
    (tmp_path / "labels.csv").write_text("file,kind\n" + "".join(kinds))
    for seed in range(4):
        data = load_dataset(tmp_path, modality="series", length="50", label="kind", split_seed=seed)
        assert data.split == "groups" and len(data.test_index) == 2 and "" not in data.y[data.test_index]
        assert len(set(data.windows.recordings[data.test_index])) == 1
