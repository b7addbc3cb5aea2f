"""discover: parts of a folder of images as tables, COCO, crops and a report; and errors."""

import json
import os
import re
import shutil
import struct
import zlib

import numpy as np
import pandas as pd
import pytest
from cli_tools import call, files, good
from PIL import Image

import viewsmith
from cases import slow
from refusals import refusal
from viewsmith.core.files import locked_folder
from viewsmith.data import load_dataset
from viewsmith.methods.discovery.images import PARTS, square
from viewsmith.workflows.discover import bed, coco

pytestmark = pytest.mark.usefixtures("small_searches")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Photos of two sizes with a red disc each, and a file that is no image."""
    path, rng = tmp_path_factory.mktemp("discover") / "photos", np.random.default_rng(0)
    path.mkdir()
    for i in range(24):
        height, width = (96, 128) if i % 2 else (128, 96)
        pixels = rng.normal(128, 25, (height // 4, width // 4, 3)).repeat(4, 0).repeat(4, 1)
        row, column = rng.integers(16, height - 16), rng.integers(16, width - 16)
        y, x = np.mgrid[:height, :width]
        pixels[(y - row) ** 2 + (x - column) ** 2 < 150] = (200, 30, 40)
        pixels = np.clip(pixels + rng.normal(0, 8, pixels.shape), 0, 255).astype(np.uint8)
        Image.fromarray(pixels).save(path / f"{i:02d}.png")
    (path / "damaged.jpg").write_bytes(b"no image")
    return path


@pytest.fixture(scope="module")
def few(folder, tmp_path_factory):
    """Twelve of the photos."""
    path = tmp_path_factory.mktemp("few")
    for i in range(12):
        (path / f"{i:02d}.png").symlink_to(folder / f"{i:02d}.png")
    return path


def test_discover_writes_parts_crops_and_report(folder, tmp_path):
    out = tmp_path / "found"
    result = good("discover", folder, "--out", out)
    assert f"{folder}: 1 file of 25 cannot be read as an image, left out" in result.err
    assert re.match(r"a thing of about \d\d pixels is in (23|24) of 24 images; ", result.out)
    table = pd.read_csv(out / "parts.csv")
    assert table.columns.tolist() == ["file", "kind", "left", "top", "right", "bottom", "score", "q", "outlier"]
    assert table.file.nunique() >= 23
    coco = json.loads((out / "coco.json").read_text())
    assert [image["id"] for image in coco["images"]] == list(range(1, 25)) and coco["info"]["version"]
    assert [each["id"] for each in coco["annotations"]] == list(range(1, len(table) + 1))
    assert {each["category_id"] for each in coco["annotations"]} == {1} == {c["id"] for c in coco["categories"]}
    names = {image["id"]: image["file_name"] for image in coco["images"]}
    assert [names[each["image_id"]] for each in coco["annotations"]] == table.file.tolist()
    assert len(coco["annotations"]) == len(table)
    left, top, width, height = coco["annotations"][0]["bbox"]
    assert [left, top, left + width, top + height] == table.iloc[0][["left", "top", "right", "bottom"]].tolist()
    crops = load_dataset(str(out / "crops"))
    assert crops.x.shape == (len(table), 64, 64, 3)
    good("locate", out, folder, "--out", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (out / "parts.csv").read_text()
    good("locate", out, folder, "--max-q", "1e-9", "--out", tmp_path / "none.csv")
    assert len(pd.read_csv(tmp_path / "none.csv")) == 0
    with Image.open(folder / "00.png") as image:
        np.savez(tmp_path / "one.npz", X=np.asarray(image)[None])
    good("locate", out, tmp_path / "one.npz", "--out", tmp_path / "one.csv")
    alone, among = pd.read_csv(tmp_path / "one.csv").iloc[0], table.iloc[0]
    sides = ["left", "top", "right", "bottom"]
    assert among.file == "00.png" and alone[sides].tolist() == among[sides].tolist()
    good("locate", "--crops", out, folder, "--out", tmp_path / "parts")
    assert load_dataset(str(tmp_path / "parts")).x.shape == (len(table), 32, 32, 3)
    page = (out / "report.html").read_text()
    assert "What recurs in photos" in page and "score map" in page and "from white (0) to red (1)" in page
    assert '<figure class="row"><img class="pixels"' in " ".join(page.split()).replace("> <", "><")
    assert "A thing of about" in page
    assert "://" not in page


def test_the_smallest_image_of_a_folder_is_named(tmp_path):
    (tmp_path / "photos").mkdir()
    for i, shape in enumerate([(64, 64), (64, 64), (20, 90), (64, 64)]):
        Image.fromarray(np.full((*shape, 3), i, np.uint8)).save(tmp_path / "photos" / f"{i}.png")
    refused = call("discover", tmp_path / "photos", "--out", tmp_path / "out")
    assert refused.refused("the smallest image (2.png) has 20 pixels on its shorter side")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["digits"], "digits has vectors, expected images"),
        (["PHOTOS", "--windows", "a"], "--windows is 'a', expected whole numbers separated by commas"),
    ],
)
def test_what_cannot_be_used(folder, tmp_path, arguments, message):
    given = [str(folder) if a == "PHOTOS" else a for a in arguments]
    assert call("discover", *given, "--out", tmp_path / "out").refused(message)
    assert not (tmp_path / "out").exists()


NOISE = np.random.default_rng(0).normal(size=(20, 100))


@pytest.mark.parametrize(
    ("name", "samples", "arguments", "message"),
    [
        ("x.npz", np.zeros((3, 64, 64, 3), np.uint8), (), "3 images, expected at least 4"),
        (
            "x.npz",
            np.zeros((8, 64, 64), np.uint8),
            ("--windows", "9"),
            "at least 72, twice the smallest window: give smaller windows (--windows 8)",
        ),
        ("x.fa", ["N" * 60] * 9, (), "0 sequences have 8 letters without N in a row"),
        ("x.fa", ["ACGTTGCATGCA"], (), "has one record, expected at least 2"),
        ("x.npy", NOISE[:3], ("--modality", "series"), "3 pieces, expected at least 4"),
    ],
)
def test_samples_that_cannot_be_used(tmp_path, name, samples, arguments, message):
    file = tmp_path / name
    if name.endswith(".fa"):
        file.write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(samples)))
    elif name.endswith(".npz"):
        np.savez(file, X=samples)
    else:
        np.save(file, samples)
    assert call("discover", file, *arguments, "--out", tmp_path / "out").refused(message)
    assert not (tmp_path / "out").exists()


def test_short_sequences_are_left_out(tmp_path):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACGT"), 40)) for _ in range(30)]
    texts = ["ACGTA", "N" * 50, *(text[:20] + "TTGACATTTATAATCG" + text[20:] for text in texts)]
    (tmp_path / "x.fa").write_text("".join(f">{i}\n{text}\n" for i, text in enumerate(texts)))
    result = good("discover", tmp_path / "x.fa", "--windows", "16", "--out", tmp_path / "sites")
    assert result.err == "" and not {0, 1} & set(pd.read_csv(tmp_path / "sites" / "parts.csv")["file"])


@pytest.mark.parametrize(
    ("text", "typed"),
    [
        ("nothing; give max_parts=12", "nothing; give --max-parts 12"),
        ("max_q is 2.0, expected a number", "--max-q is 2.0, expected a number"),
        ("give a max_q above 0.1", "give a --max-q above 0.1"),
        ("not known: unjudged=True lists them", "not known: --unjudged lists them"),
        ("recordings: modality='series'", "recordings: --modality series"),
        ("at image_size=128, --max-q is 2", "at --image-size 128, --max-q is 2"),
        ("kinds of things, features of a network", "kinds of things, features of a network"),
    ],
)
def test_messages_name_options_as_they_are_typed(text, typed):
    from viewsmith.methods.discovery.options import as_flags

    assert as_flags(text) == typed


def test_a_folder_that_is_not_empty_is_refused(folder, tmp_path):
    (tmp_path / "mine").write_text("x")
    (tmp_path / "cache").mkdir()  # of something else
    assert call("discover", folder, "--out", tmp_path).refused("exists and is not empty")
    assert (tmp_path / "mine").exists() and (tmp_path / "cache").exists()


def test_nothing_recurs_is_an_answer(tmp_path):
    pixels = np.random.default_rng(0).integers(0, 256, (40, 64, 64), dtype=np.uint8)
    np.savez(tmp_path / "noise.npz", X=pixels)
    result = good("discover", tmp_path / "noise.npz", "--out", tmp_path / "out")
    assert (result.out + result.err).count("nothing recurs") == 1
    assert len(pd.read_csv(tmp_path / "out" / "parts.csv")) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "Nothing recurs: the best candidate" in page and "lies in one box" in page
    assert "give --max-parts 12" in page and "give --max-parts 12" in result.out and "max_parts" not in result.out


def test_rna_has_one_strand_by_default(tmp_path):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACGU"), 70)) for _ in range(20)]
    texts = [text[:20] + "UUGACAUUUAUAAUCG" + text[36:] for text in texts]
    (tmp_path / "x.fa").write_text("".join(f">s{i}\n{text}\n" for i, text in enumerate(texts)))
    said = "the letters are RNA (U, no T): sites are sought on the given strand alone"
    for flag, both in ((), False), (("--both-strands",), True):
        out = tmp_path / f"found{both}"
        result = good("discover", tmp_path / "x.fa", "--out", out, "--windows", "16", *flag)
        assert (said in result.err) != both
        assert viewsmith.Discovery.load(out).parts_[0].both is both
    with pytest.warns(UserWarning, match="the letters are RNA"):
        model = viewsmith.Discovery(windows=[16]).fit(texts)
    assert not model.parts_[0].both
    assert viewsmith.Discovery(windows=[16]).fit([text.replace("U", "T") for text in texts]).parts_[0].both


def test_discover_in_fasta_writes_sites_and_motifs(tmp_path):
    from xml.etree import ElementTree

    rng = np.random.default_rng(0)
    lines = []
    for i in range(30):
        text = "".join(rng.choice(list("ACGT"), 90))
        start = int(rng.integers(0, 70))
        lines.append(f">s{i}\n{text[:start]}TTGACATTTATAATCG{text[start + 16 :]}\n")
    (tmp_path / "x.fa").write_text("".join(lines))
    out = tmp_path / "found"
    result = good("discover", tmp_path / "x.fa", "--out", out, "--windows", "16", "--one-strand")
    assert "the motif TTGACATTTATAATCG is in 30 of 30 sequences; " in result.out
    bed = pd.read_csv(out / "parts.bed", sep="\t", header=None)
    table = pd.read_csv(out / "parts.csv")
    assert (
        table.columns.tolist() == ["file", "kind", "start", "end", "reverse", "score", "q", "outlier"]
        and len(bed) == len(table) == 30
    )
    assert (bed[2] - bed[1] == 16).all() and set(bed[5]) == {"+"} and bed[4].between(0, 1000).all()
    meme = (out / "motifs.meme").read_text()
    assert "MOTIF motif0 TTGACATTTATAATCG" in meme and "w= 16 nsites= 30 E= 0" in meme
    jaspar = (out / "motifs.jaspar").read_text()
    assert jaspar.startswith(">motif0\tTTGACATTTATAATCG\nA [") and jaspar.splitlines()[1].split()[2].isdecimal()
    assert ElementTree.parse(out / "motif0.svg").getroot().tag.endswith("svg")
    crops = load_dataset(str(out / "crops.fa"))
    assert crops.modality == "dna" and len(crops.x) == 30
    again = ("locate", out, tmp_path / "x.fa", "--out")
    good(*again, tmp_path / "again.bed")
    assert (tmp_path / "again.bed").read_text() == (out / "parts.bed").read_text()
    good("locate", "--crops", out, tmp_path / "x.fa", "--out", tmp_path / "again.fasta")
    assert (tmp_path / "again.fasta").read_text() == (out / "crops.fa").read_text()
    (tmp_path / "one.fa").write_text(lines[0])
    good("locate", out, tmp_path / "one.fa", "--out", tmp_path / "one.csv")
    assert pd.read_csv(tmp_path / "one.csv")["start"].tolist() == table["start"].tolist()[:1]
    assert call(*again, tmp_path / "again.txt").refused("expected a file that ends in .csv, or for sequences .bed")
    assert call("embed", out, tmp_path / "x.fa", "--out", tmp_path / "h.npz").refused("is of the command discover")
    assert viewsmith.load(out).modality_ == "dna"
    page = (out / "report.html").read_text()
    assert (
        "<h2>Motif 0</h2>" in page
        and "30 sites are listed, in 30 of 30 sequences" in page
        and "Sites, best first" in page
    )
    assert "://" not in page


def test_discover_in_recordings_writes_events(tmp_path):
    rng = np.random.default_rng(0)
    x = rng.normal(size=(60, 200)).astype(np.float32)
    for row, start in zip(x, rng.integers(0, 160, 60), strict=True):
        row[start : start + 30] += 5 * np.hanning(30) * np.sin(np.arange(30))
    np.save(tmp_path / "x.npy", x)
    assert call("discover", tmp_path / "x.npy", "--out", tmp_path / "no").refused(
        "has vectors, expected images", "series"
    )
    result = good(
        "discover", tmp_path / "x.npy", "--modality", "series", "--windows", "30", "--out", tmp_path / "found"
    )
    assert "an event of 30 points is in " in result.out
    table = pd.read_csv(tmp_path / "found" / "parts.csv")
    assert table.columns.tolist() == ["index", "kind", "start", "end", "score", "q", "outlier"] and len(table) > 55
    good("locate", "--crops", tmp_path / "found", tmp_path / "x.npy", "--out", tmp_path / "again.npz")
    assert (tmp_path / "again.npz").read_bytes() == (tmp_path / "found" / "crops.npz").read_bytes()
    crops = load_dataset(str(tmp_path / "found" / "crops.npz"), modality="series")
    assert crops.x.shape == (len(table), 1, 128)
    np.save(tmp_path / "one.npy", x[:1])
    good("locate", tmp_path / "found", tmp_path / "one.npy", "--out", tmp_path / "one.csv")
    assert pd.read_csv(tmp_path / "one.csv")["start"].tolist() == table["start"].tolist()[:1]
    (tmp_path / "x.fa").write_text(">a\nACGT\n")
    refused = call("locate", tmp_path / "found", tmp_path / "x.fa", "--out", tmp_path / "no.csv")
    assert refused.refused("has dna, expected recordings (--modality series)")
    page = (tmp_path / "found" / "report.html").read_text()
    assert "Mean and deciles" in page and "Pieces, from the best score" in page


@pytest.mark.parametrize("name", [slow("one.npy"), "two.npy", slow("one.csv")])
def test_recordings_with_missing_values_are_masked(name, tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 100)).astype(np.float32)
    x[:, 40:60] += 20 * np.hanning(20)
    x[3, 5] = np.nan
    if name == "one.csv":
        pd.DataFrame(x, columns=[f"t{i}" for i in range(100)]).to_csv(tmp_path / name, index=False)
    else:
        np.save(tmp_path / name, x if name == "one.npy" else np.stack([x, x], 1))
    good("discover", tmp_path / name, "--modality", "series", "--out", tmp_path / "out")
    assert len(pd.read_csv(tmp_path / "out" / "parts.csv")) > 25
    x[3, 6] = np.inf
    np.save(tmp_path / "inf.npy", np.stack([x, x], 1))
    result = call("discover", tmp_path / "inf.npy", "--modality", "series", "--out", tmp_path / "no")
    assert result.refused("2 infinite values (beyond 3.4e38) in 1 recording of", ": 3; leave these out, or make")
    assert not (tmp_path / "no").exists()


@pytest.fixture(scope="module")
def network(tmp_path_factory):
    """The folder of a small trained model of images in color."""
    x = np.random.default_rng(0).integers(0, 256, (20, 32, 32, 3), dtype=np.uint8)
    folder = tmp_path_factory.mktemp("network") / "run"
    viewsmith.Contrastive(encoder="cnn", epochs=1, batch_size=20, random_state=0).fit(x).save(folder)
    return folder


def test_discover_with_the_features_of_a_trained_model(few, network, tmp_path):
    good("discover", few, "--windows", 4, "--out", tmp_path / "out", "--features", network)
    assert (tmp_path / "out" / "features" / "config.toml").exists()
    lines = good("locate", tmp_path / "out", few, "--out", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").exists() and lines.code == 0
    message = "features is 'nowhere', expected auto, pieces, patches, timm:NAME, or the folder of a model"
    assert call("discover", few, "--out", tmp_path / "no", "--features", "nowhere").refused(message)


@pytest.mark.parametrize("kind", ["network", "patches"])
def test_a_stopped_discovery_reuses_its_features(few, network, tmp_path, monkeypatch, kind):
    from viewsmith.methods.discovery import image_parts
    from viewsmith.methods.discovery.network_maps import NetworkMaps
    from viewsmith.modalities.images.features import Patches

    made, features = (NetworkMaps, network) if kind == "network" else (Patches, "patches")
    options, out, counted = ("--windows", 4, "--features", features), tmp_path / "found", []
    plain = made.__call__
    monkeypatch.setattr(made, "__call__", lambda self, x: counted.append(len(x)) or plain(self, x))
    with monkeypatch.context() as patch:
        patch.setattr(image_parts, "discover", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        stopped = call("discover", few, *options, "--out", out)
    assert stopped.code == 130 and "the same command starts again, with the features that are kept" in stopped.err
    assert sum(counted) >= 12 and [path.name for path in out.iterdir()] == ["discover.cache"]
    counted.clear()
    good("discover", few, *options, "--out", out)
    again = sum(counted)  # with those of images with random phases
    good("discover", few, *options, "--out", tmp_path / "new")
    assert sum(counted) == 2 * again + 12
    assert (out / "parts.csv").read_text() == (tmp_path / "new" / "parts.csv").read_text()
    assert not (out / "discover.cache").exists()


@pytest.mark.parametrize("kind", [slow("images"), "series"])
def test_a_discovery_that_was_stopped_while_it_wrote_starts_again(kind, few, tmp_path, monkeypatch):
    from viewsmith.workflows import discover

    out, data, options = tmp_path / "found", few, ["--windows", 4]
    if kind == "series":
        np.save(data := tmp_path / "x.npy", np.random.default_rng(0).normal(size=(30, 100)))
        options = ["--modality", "series"]
    with monkeypatch.context() as patch:
        patch.setattr(discover, "write_parts_report", lambda *_, **__: (_ for _ in ()).throw(KeyboardInterrupt))
        stopped = call("discover", data, *options, "--out", out)
    assert stopped.code == 130 and "the same command starts again" in stopped.err
    assert (out / "config.toml").exists() and not (out / "report.html").exists()
    good("discover", data, *options, "--out", out)
    assert (out / "report.html").exists() and not (out / "discover.cache").exists()
    again = call("discover", data, *options, "--out", out)
    assert again.refused("exists and is not empty: choose a new folder")


@pytest.mark.parametrize(("kind", "files"), [("network", 2), ("patches", 1)])
def test_features_in_a_cache_are_those_of_the_same_images_alone(network, tmp_path, kind, files):
    """Patches of images that were not fitted are not kept."""
    from located_discs import with_discs

    x, other = with_discs(12)[0], with_discs(12, seed=3)[0]
    features = str(network) if kind == "network" else "patches"
    model = viewsmith.Discovery(windows=[4], features=features, cache=str(tmp_path / "cache")).fit(x)
    plain = viewsmith.Discovery(windows=[4], features=features).fit(x)
    for samples in (x, other, x):
        assert (model.score_samples(samples) == plain.score_samples(samples)).all()
    assert len(list((tmp_path / "cache").glob("*.maps"))) == files
    model.save(tmp_path / "run")
    assert viewsmith.load(tmp_path / "run").cache is None


@pytest.mark.parametrize("image", [np.full((64, 64, 3), 90), np.random.default_rng(0).integers(0, 256, (64, 64, 3))])
def test_equal_images_leave_nothing_behind(tmp_path, image):
    np.savez(tmp_path / "x.npz", X=np.stack([image.astype(np.uint8)] * 8))
    message = "all samples are equal, expected images that differ"
    assert call("discover", tmp_path / "x.npz", "--out", tmp_path / "out").refused(message)
    assert not (tmp_path / "out").exists()


def png(width, height):
    """A PNG file whose header says any size, with a few bytes of content."""

    def chunk(kind, content):
        whole = kind + content
        return struct.pack(">I", len(content)) + whole + struct.pack(">I", zlib.crc32(whole))

    header = struct.pack(">IIBBBBB", width, height, 8, 2, 0, 0, 0)
    content = chunk(b"IDAT", zlib.compress(bytes(1000)))
    return b"\x89PNG\r\n\x1a\n" + chunk(b"IHDR", header) + content + chunk(b"IEND", b"")


def test_images_that_cannot_be_used_are_left_out_by_name(few, tmp_path):
    photos = shutil.copytree(few, tmp_path / "photos")
    whole = (photos / "00.png").read_bytes()
    for i in range(60):  # of which those that cannot be used are a tenth
        (photos / f"more{i:02d}.png").write_bytes(whole)
    (photos / "bomb.png").write_bytes(png(40_000, 40_000))
    (photos / "short.png").write_bytes(png(64, 64))
    (photos / "chunk.png").write_bytes(whole[:20] + b"\xff" * 8 + whole[28:])
    (photos / "tiff.tif").write_bytes(b"II*\x00" + struct.pack("<I", 8) + struct.pack("<HHHII", 1, 256, 3, 2**31, 7))
    (photos / "gif.gif").write_bytes(b"GIF89a" + b"\xff" * 20)
    (photos / "bmp.bmp").write_bytes(b"BM" + struct.pack("<IHHII", 99, 0, 0, 54, 40) + b"\xff" * 36)
    os.mkfifo(photos / "pipe.png")
    result = good("discover", photos, "--windows", 4, "--out", tmp_path / "out")
    (line,) = [line for line in result.err.splitlines() if "left out" in line]
    names = ["bmp.bmp", "bomb.png", "chunk.png", "gif.gif", "pipe.png", "short.png"]
    assert f"7 files of 79 cannot be read as images, left out, so that no row is of them: {', '.join(names)}, " in line


def test_a_file_that_is_damaged_meanwhile_is_named(few, tmp_path, monkeypatch):
    from viewsmith.data import any_size

    photos, read = shutil.copytree(few, tmp_path / "photos"), any_size._folder

    def damaged(path, options):
        images = read(path, options)
        (photos / "03.png").write_bytes(b"no image")
        return images

    monkeypatch.setattr(any_size, "_folder", damaged)
    monkeypatch.setattr(any_size, "DECODED", 0)  # so that it is read once more
    assert call("discover", photos, "--out", tmp_path / "out").refused("03.png as an image; is it damaged")
    assert not (tmp_path / "out").exists()


def test_records_without_names_have_their_number(tmp_path):
    rng = np.random.default_rng(0)
    texts = ["".join(rng.choice(list("ACGT"), 60)) for _ in range(30)]
    texts = [text[:20] + "TTGACATTTATAATCG" + text[20:] for text in texts]
    names = ["", "\t", "a b", *map(str, range(3, 30))]
    (tmp_path / "x.fa").write_text("".join(f">{n}\n{t}\n" for n, t in zip(names, texts, strict=True)))
    good("discover", tmp_path / "x.fa", "--windows", "16", "--out", tmp_path / "out")
    found = pd.read_csv(tmp_path / "out" / "parts.csv", dtype={"file": str})["file"].tolist()
    assert found[:3] == ["0", "1", "a"]
    assert (tmp_path / "out" / "parts.bed").read_text().splitlines()[0].startswith("0\t")


def test_one_discovery_writes_to_a_folder_at_once(few, tmp_path):
    with locked_folder(tmp_path / "out"):
        assert call("discover", few, "--out", tmp_path / "out").refused("is in use by another process")
        assert [path.name for path in (tmp_path / "out").iterdir()] == [".lock"]
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("name", ["discover.cache", "crops"])
def test_discover_follows_no_link(few, tmp_path, name):
    out, mine = tmp_path / "out", tmp_path / "mine"
    mine.mkdir()
    (mine / "file").write_text("mine")
    out.mkdir()
    (out / "discover.cache").mkdir() if name == "crops" else None  # of a discovery that was stopped
    (out / name).symlink_to(mine)
    assert call("discover", few, "--windows", 4, "--out", out).refused(f"{name} is a symbolic link")
    assert [path.name for path in mine.iterdir()] == ["file"]


def test_a_discovery_is_not_saved_over_something_else(few, tmp_path, wine):
    good("discover", few, "--windows", 4, "--out", tmp_path / "out")
    model = viewsmith.load(tmp_path / "out")
    model.save(tmp_path / "out")
    viewsmith.Contrastive(epochs=1, random_state=0).fit(wine).save(tmp_path / "run")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "config.toml").write_text("mine = 1")
    for name in ("run", "mine"):
        before = files(tmp_path / name)
        assert "files of something else" in refusal(model.save, tmp_path / name)
        assert files(tmp_path / name) == before


@pytest.mark.parametrize(("made", "part"), [(lambda x: Image.fromarray(np.dstack([x] * 4)), "has transparency")])
def test_images_that_would_be_clipped_or_cut_are_refused(tmp_path, made, part):
    (tmp_path / "set").mkdir()
    for i in range(5):
        made(np.random.default_rng(i).integers(0, 255, (40, 48), np.uint8)).save(tmp_path / "set" / f"{i}.tif")
    for command in (("discover",), ("fit", "--image-size", 16)):
        result = call(*command[:1], tmp_path / "set", "--out", tmp_path / "out", *command[1:])
        assert result.refused("0.tif", part) and not (tmp_path / "out").exists()


@pytest.mark.parametrize("file", [slow("one.png"), "deep.tif"])
def test_one_image_of_things_on_a_plain_background(tmp_path, file):
    row, column = np.mgrid[:200, :200]
    pixels = np.full((200, 200), 20.0)
    for place in range(16):
        away = np.hypot(row - 30 - 45 * (place // 4), column - 30 - 45 * (place % 4))
        pixels += (60 + 5 * place) / (1 + np.exp(away - 9))
    pixels += np.random.default_rng(0).normal(0, 2, pixels.shape)
    deep = file.endswith(".tif")
    Image.fromarray((pixels * 100).astype(np.uint16) if deep else pixels.astype(np.uint8)).save(tmp_path / file)
    good("discover", tmp_path / file, "--out", tmp_path / "out")
    table = (tmp_path / "out" / "parts.csv").read_text()
    assert len(table.splitlines()) == 17 and table.splitlines()[1].startswith(f"{file},0,")
    good("locate", tmp_path / "out", tmp_path / file, "--out", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == table
    good("locate", tmp_path / "out", tmp_path / file, "--crops", "--n", 3, "--out", tmp_path / "crops")
    assert len(list((tmp_path / "crops").iterdir())) == 3


def test_few_large_images_are_to_be_cut(tmp_path):
    (tmp_path / "set").mkdir()
    Image.fromarray(np.random.default_rng(0).integers(0, 255, (140, 150), np.uint8)).save(tmp_path / "set" / "a.png")
    result = call("discover", tmp_path / "set", "--out", tmp_path / "out")
    assert result.refused("1 image, expected at least 4", "load_dataset(FILE, tile=35).x (--tile 35)")
    good("discover", tmp_path / "set", "--tile", 35, "--out", tmp_path / "out")


def test_what_earlier_commands_wrote_into_the_folder_is_no_sample(tmp_path):
    folder, rng = tmp_path / "set", np.random.default_rng(0)
    folder.mkdir()
    for i in range(6):
        Image.fromarray(rng.integers(0, 255, (48, 48), np.uint8)).save(folder / f"{i}.png")
    (folder / "found" / "crops").mkdir(parents=True)
    for i in range(6):
        Image.fromarray(rng.integers(0, 255, (64, 64), np.uint8)).save(folder / "found" / "crops" / f"{i}.png")
    for name in ("config.toml", "model.safetensors"):
        (folder / "found" / name).write_text("")
    result = good("discover", folder, "--out", tmp_path / "out")
    assert "has results, whose images are not samples, ignored: found" in result.err
    assert len(json.loads((tmp_path / "out" / "coco.json").read_text())["images"]) == 6
    for place in (folder / "crops", folder / "map.png"):
        command = ("locate", "--crops") if place.suffix == "" else ("plot",)
        result = call(*command, tmp_path / "out", folder, "--out", place)
        assert result.refused("in the folder of the samples") and not place.exists()


def test_a_table_in_long_format_is_no_event(tmp_path):
    rows = [(name, f"2000-01-{day:02d}", day) for name in "abcde" for day in range(1, 29)]
    pd.DataFrame(rows, columns=["symbol", "date", "price"]).to_csv(tmp_path / "long.csv", index=False)
    result = call("discover", tmp_path / "long.csv", "--modality", "series", "--out", tmp_path / "out")
    assert result.refused("long format", "(--time date --id symbol)")
    columns = ["--time", "date", "--id", "symbol"]
    result = call("discover", tmp_path / "long.csv", "--modality", "series", *columns, "--out", tmp_path / "out")
    assert result.refused("all samples are equal")  # read as recordings


def test_the_score_of_a_site_is_a_whole_number_from_0_to_1000():
    fields = [("sample", int), ("kind", int), ("start", int), ("end", int), ("reverse", bool), ("score", float)]
    found = np.array([(0, 0, 3, 9, False, 3.02), (1, 1, 0, 6, True, -1.0), (0, 0, 5, 11, False, 30.0)], fields)
    assert bed(found, ["a b", "c"]).splitlines() == [
        "a\t3\t9\tmotif0\t151\t+",
        "c\t0\t6\tmotif1\t0\t-",
        "a\t5\t11\tmotif0\t1000\t+",
    ]


def test_the_area_of_a_box_is_that_of_its_sides():
    found = np.array([(0, 0, 3, 5, 13, 9, 1.5, 0.01, True)], PARTS)
    (box,) = coco(found, [(96, 128)], ["a.png"])["annotations"]
    assert box["bbox"] == [3, 5, 10, 4] and box["area"] == 40 and box["outlier"] is True


@pytest.mark.parametrize(
    ("box", "rows", "columns"),
    [((12, 2, 18, 4), (0, 6), (12, 18)), ((16, 0, 20, 2), (0, 4), (16, 20)), ((0, 1, 16, 9), (0, 10), (3, 13))],
)
def test_a_crop_is_the_square_of_the_longer_side_inside_the_image(box, rows, columns):
    image = np.arange(200).reshape(10, 20)
    part = dict(zip(("left", "top", "right", "bottom"), box, strict=True))
    np.testing.assert_array_equal(square(image, part), image[slice(*rows), slice(*columns)])


def test_discover_in_proteins_writes_patterns_of_20_letters(tmp_path):
    rng, letters = np.random.default_rng(0), [*"ACDEFGHIKLMNPQRSTVWY"]
    rows = rng.choice(letters, (20, 50))
    rows[:, 20:32] = [*"HRDLKPENILLD"]
    (tmp_path / "x.fa").write_text("".join(f">p{i}\n{''.join(row)}\n" for i, row in enumerate(rows)))
    out = tmp_path / "found"
    result = good("discover", tmp_path / "x.fa", "--out", out, "--windows", "12")
    assert "the motif HRDLKPENILLD is in 20 of 20 sequences; " in result.out
    assert "ALPHABET= ACDEFGHIKLMNPQRSTVWY\n\nBackground" in (out / "motifs.meme").read_text()
    assert not (out / "motifs.jaspar").exists() and (out / "motif0.svg").exists()
    assert "pattern H-R-D-L-K-P-E-N-I-L(2)-D" in (out / "report.html").read_text()
    good("locate", out, tmp_path / "x.fa", "--out", tmp_path / "again.csv")
    assert (tmp_path / "again.csv").read_text() == (out / "parts.csv").read_text()
    message = call("discover", tmp_path / "x.fa", "--out", tmp_path / "other", "--modality", "dna").err
    assert "is it a protein?" in message


def test_gaps_are_said_once_and_a_sound_of_its_own_is_cut_at_silence(tmp_path):
    x = np.random.default_rng(0).normal(size=(30, 100))
    x[3, 10:20] = np.nan
    np.save(tmp_path / "x.npy", x)
    result = call("discover", tmp_path / "x.npy", "--modality", "series", "--out", tmp_path / "out")
    assert result.code == 0 and result.err.count("with gaps (NaN)") == 1
    np.save(tmp_path / "one.npy", x.ravel())
    one = ("discover", tmp_path / "one.npy", "--modality", "series", "--out", tmp_path / "new")
    assert "(--length 375), or are the sounds between silences (--length sounds)" in call(*one, "--rate", 8000).err
