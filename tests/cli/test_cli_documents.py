"""The commands and code in the documentation work."""

import dataclasses
import gzip
import importlib
import itertools
import re
import shlex
from pathlib import Path

import numpy as np
import pytest
import torch
import typer
from cli_tools import good

from cases import slow
from small_searches import smaller
from viewsmith.cli import app
from viewsmith.core.registry import texts_of
from viewsmith.data.options import DataOptions
from viewsmith.methods.crl_tac import estimator as crl_tac

ROOT = Path(__file__).parents[2]
DOCUMENTS = [ROOT / "README.md", ROOT / "Makefile", *sorted((ROOT / "docs").glob("**/*.md"))]
FENCE = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)


def command_lines(code):
    """Command lines in code, the synopsis with its placeholders left out."""
    for line in re.findall(r"^\s*(?:\$\(PY\) -m )?viewsmith (.*)$", code, re.MULTILINE):
        words = shlex.split(line.replace("$(THREADS)", "2"), comments=True)
        if not {"...", "DATA", "RUN"} & set(words):
            yield words


def commands(path):
    """Command lines in a document's code, inline code included."""
    text = path.read_text(encoding="utf-8")
    code = re.findall(r"^```\w*\n(.*?)^```|`([^`\n]+)`", text, re.DOTALL | re.MULTILINE)
    return command_lines(text if path.name == "Makefile" else "\n".join(map("".join, code)))


def blocks(path):
    """Languages and contents of a document's fenced code, in order."""
    return FENCE.findall(path.read_text(encoding="utf-8"))


FOUND = {path.name: list(commands(path)) for path in DOCUMENTS}
#: The code of the README runs in tests/docs/test_docs_readme.py.
WITH_CODE = [path for path in DOCUMENTS[1:] if any(kind == "python" for kind, _ in blocks(path))]


@pytest.mark.parametrize("document", FOUND)
def test_command_lines_parse(document):
    command = typer.main.get_command(app)
    for line in FOUND[document]:
        name, parser, rest = command.resolve_command(command.make_context("viewsmith", line), line)
        assert parser.make_context(name, rest).params, line


def test_there_are_command_lines_to_parse():
    assert len(FOUND["README.md"]) >= 6 and len(FOUND["Makefile"]) == 1


COMMANDS = typer.main.get_command(app).commands


def test_every_flag_says_what_it_does():
    assert not [(name, p.name) for name, command in COMMANDS.items() for p in command.params if not p.help]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_has_no_names_of_types(name):
    text = COMMANDS[name].get_help(typer.main.get_command(app).make_context("viewsmith", [name]))
    assert not re.search(r"<\w|\{[A-Z]", text), text


# --- all code of the documents, in order, on small files with the names in the documents


def random_sequences(rng, n):
    return ["".join(rng.choice(list("ACGT"), rng.integers(30, 50))) for _ in range(n)]


@pytest.fixture
def workplace(tmp_path, monkeypatch, brief):
    """A folder with the files that the documents name; trainings have a single epoch."""
    import anndata
    import pandas as pd
    import scipy.sparse
    from PIL import Image
    from safetensors.torch import save_file

    from viewsmith.networks import Hyena

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(crl_tac, "STEPS", 1)
    rng = np.random.default_rng(0)
    kinds = np.where(np.arange(60) % 2, "b", "t")
    table = pd.DataFrame(rng.normal(size=(60, 4)), columns=list("abcd"))
    table.to_csv("new.csv", index=False)
    np.save("measurements.npy", table.to_numpy(np.float32))
    table.assign(type=kinds).to_csv("cells.csv", index=False)
    for folder in ("photos", "new_photos"):
        for i in range(24):
            path = Path(folder, ("cat", "dog")[i % 2], f"{i:02d}.png")
            path.parent.mkdir(parents=True, exist_ok=True)
            Image.fromarray(rng.integers(0, 256, (20, 24, 3), dtype=np.uint8)).save(path)
    names = [f"s{i}" for i in range(60)]
    fasta = "".join(f">{name}\n{text}\n" for name, text in zip(names, random_sequences(rng, 60), strict=True))
    with gzip.open("enhancers.fa.gz", "wt") as file:
        file.write(fasta)
    folds = ["".join(rng.choice(list("HEC"), 60)) for _ in range(40)]
    Path("structures.fasta").write_text("".join(f">s{i}\n{fold}\n" for i, fold in enumerate(folds)))
    Path("hg38.fa").write_text(f">chr1\n{''.join(rng.choice(list('ACGT'), 8000))}\n")
    genes = [
        f'     {kind:<16}{400 * i + 1}..{400 * i + 300}\n{" " * 21}/gene="g{i}"\n'
        for i, kind in enumerate(["CDS", "tRNA"] * 9)
    ]
    letters = "".join(f"{1:>9} {''.join(rng.choice(list('acgt'), 7200))}\n")
    Path("chloroplast.gb").write_text(
        "LOCUS       X 7200 bp DNA PLN 01-JAN-2000\nFEATURES             Location/Qualifiers\n"
        f"{''.join(genes)}ORIGIN\n{letters}//\n"
    )
    Path("peaks.bed").write_text("".join(f"chr1\t{300 * i}\t{300 * i + 200}\n" for i in range(1, 25)))
    Path("enhancers.tsv").write_text("".join(f"{n}\t{k}\n" for n, k in zip(names, kinds, strict=True)))
    counts = rng.poisson(1, (60, 30)).astype(np.float32)
    obs = pd.DataFrame({"cell_type": kinds, "donor": [f"d{i // 12}" for i in range(60)]}, index=names)
    cells = anndata.AnnData(X=np.log1p(counts), obs=obs, var=pd.DataFrame(index=[f"g{i}" for i in range(30)]))
    cells.layers["counts"] = counts
    cells.obsp["connectivities"] = scipy.sparse.eye_array(60, k=1, format="csr") + scipy.sparse.eye_array(60, k=-1)
    cells.write_h5ad("cells.h5ad")
    save_file(Hyena().state_dict(), "model.safetensors")
    write_recordings(rng)
    write_spectra(rng)
    write_plates(rng)
    return tmp_path


def write_spectra(rng):
    """A table with a spectrum in each row, and a folder of text files."""
    import pandas as pd

    axis = np.arange(900, 960)
    x = np.sin(axis / 9 + (np.arange(40) % 2)[:, None]) + rng.normal(0, 0.1, (40, 60))
    kinds = np.where(np.arange(40) % 2, "b", "t")
    pd.DataFrame(x, columns=axis.astype(str)).assign(type=kinds).to_csv("coffee.csv", index=False)
    for i, (row, kind) in enumerate(zip(x, kinds, strict=True)):
        Path("raman", kind).mkdir(parents=True, exist_ok=True)
        np.savetxt(f"raman/{kind}/{i}.txt", np.stack([axis, row], 1), header="Wave Intensity")


def write_plates(rng):
    """Images of wells in three channels, a table of them, slices in one file, and images with masks of objects."""
    import tifffile

    Path("wells").mkdir()
    channels = {"axes": "CYX", "Channel": {"Name": ["DNA", "AGP", "ER"]}}
    rows = ["file,drug,plate"]
    for i in range(24):
        x = rng.integers(0, 4000, (3, 20, 24)).astype(np.uint16)
        tifffile.imwrite(Path("wells", f"{i}.ome.tif"), x, ome=True, metadata=channels)
        rows.append(f"{i}.ome.tif,{'ab'[i % 2]},p{i // 8}")
    Path("layout.csv").write_text("\n".join(rows) + "\n")
    Path("plate").mkdir()
    for well, channel in itertools.product(range(24), "12"):
        tifffile.imwrite(Path("plate", f"A{well}_w{channel}.tif"), rng.integers(0, 4000, (20, 24)).astype(np.uint16))
    scene = rng.integers(0, 4000, (700, 700)).astype(np.uint16)
    for top, left in rng.integers(0, 680, (60, 2)):
        scene[top : top + 20, left : left + 20] += 30_000
    tifffile.imwrite("scene.tif", scene)
    for place in ("images", "masks"):
        Path(place).mkdir()
    for i in range(4):
        mask = np.zeros((64, 64), np.uint16)
        for number, (row, column) in enumerate(itertools.product((4, 24, 44), repeat=2), 1):
            mask[row : row + 12, column : column + 12] = number
        tifffile.imwrite(f"images/{i}.tif", (rng.normal(900, 90, (64, 64)) + 900 * (mask > 0)).astype(np.uint16))
        tifffile.imwrite(f"masks/{i}_cp_masks.tif", mask)
    slices = rng.integers(0, 4000, (12, 2, 20, 24)).astype(np.uint16)
    tifffile.imwrite("stack.ome.tif", slices, ome=True, metadata={"axes": "ZCYX"})


def write_recordings(rng):
    """Sound, a night of EEG, records of an electrocardiogram and a data set of the UEA archive."""
    import pandas as pd
    import scipy.io
    import soundfile
    import wfdb
    from edfio import Edf, EdfAnnotation, EdfSignal

    for folder in ("words", "songs", "mitdb", "JapaneseVowels"):
        Path(folder).mkdir()
    for i in range(2):  # 12 sounds of two pitches, apart from each other
        song = 1e-3 * rng.normal(size=24_000)
        for number in range(12):
            tone = np.sin(2 * np.pi * (0.1 if number % 2 else 0.2) * np.arange(800))
            song[2000 * number + 500 :][:800] += 0.5 * tone * np.hanning(800)
        soundfile.write(Path("songs", f"{i}.wav"), song, 8000)
    calls = [(f"{i}.wav", (n + 0.25) / 4, (n + 0.65) / 4, "ab"[n % 2]) for i in range(2) for n in range(12)]
    pd.DataFrame(calls, columns=["file", "begin", "end", "species"]).to_csv("calls.csv", index=False)
    rows = [(f"{i}.wav", i % 2, f"s{i % 3}") for i in range(24)]
    for name, _, _ in rows:
        soundfile.write(Path("words", name), rng.uniform(-0.5, 0.5, 250), 1000)
    pd.DataFrame(rows, columns=["file", "digit", "speaker"]).to_csv("words/labels.csv", index=False)
    steps = [{"t": t / 50, "run": i, "person": i % 3, "ankle": rng.normal()} for i in range(24) for t in range(40)]
    pd.DataFrame(steps).to_csv("gait.csv", index=False)
    scipy.io.savemat("emg.mat", {"emg": rng.normal(size=(60_000, 1))})
    night = [EdfSignal(rng.normal(size=6000), 10, label=name) for name in ("Fpz-Cz", "Pz-Oz", "EMG")]
    Edf(night).write("night.edf")
    Path("sleep-edf").mkdir()
    for name in ("SC4001E", "SC4011E"):
        signal = EdfSignal(rng.normal(size=12_000), 10, label="EEG Fpz-Cz")
        Edf([signal]).write(f"sleep-edf/{name}0-PSG.edf")
        stages = [EdfAnnotation(30.0 * i, 30.0, f"Sleep stage {'W1'[i % 2]}") for i in range(40)]
        Edf([], annotations=stages).write(f"sleep-edf/{name}C-Hypnogram.edf")
    stimuli = [EdfAnnotation(1.5 * i, 0.0, ("standard", "target")[i % 2]) for i in range(70)]
    Edf([EdfSignal(rng.normal(size=11_000), 100, label="Cz")], annotations=stimuli).write("erp.edf")
    Path("bids").mkdir()
    people = [(f"sub-{i:02}", "ab"[i % 2]) for i in range(8)]
    pd.DataFrame(people, columns=["participant_id", "group"]).to_csv("bids/participants.tsv", sep="\t", index=False)
    for name, _ in people:
        folder = Path("bids", name, "eeg")
        folder.mkdir(parents=True)
        Edf([EdfSignal(rng.normal(size=3000), 100, label="Cz")]).write(folder / f"{name}_task-odd_eeg.edf")
        rows = [(2 * i, 0, ("standard", "target")[i % 2]) for i in range(14)]
        events = pd.DataFrame(rows, columns=["onset", "duration", "trial_type"])
        events.to_csv(folder / f"{name}_task-odd_events.tsv", sep="\t", index=False)
    steps = [{"t": t, "user": i, "activity": "ab"[t // 400], "x": rng.normal()} for i in range(4) for t in range(800)]
    pd.DataFrame(steps).to_csv("activities.csv", index=False)
    for name in ("100", "101"):
        signal = {"units": ["mV"], "sig_name": ["MLII"], "fmt": ["16"], "p_signal": rng.normal(size=(3000, 1))}
        wfdb.wrsamp(name, fs=50, write_dir="mitdb", **signal)
    for part in ("TRAIN", "TEST"):
        lines = [f"{','.join(map(str, rng.integers(0, 9, 12)))}:{i % 2}" for i in range(24)]
        header = "@problemName Toy\n@timestamps false\n@classLabel true 0 1\n@data\n"
        Path("JapaneseVowels", f"Toy_{part}.ts").write_text(header + "\n".join(lines))


def run(kind, code, names):
    """Run a block of code, of few samples and epochs, commands with the fastest protocol and two trials, no UMAP."""
    if kind == "python":
        short = re.sub(r"\bepochs=\d+", "epochs=1", re.sub(r"\b1000(?=, 64|])", "120", code))
        exec(compile(short, "<document>", "exec"), names)
        return
    for words in command_lines(code):
        less = ["--protocols", "knn"] if words[0] == "evaluate" and "--protocols" not in words else []
        less += ["--trials", "2"] if words[0] == "tune" else []
        good(*(word for word in words if word != "--umap"), *less)


@pytest.fixture
def short_trainings(monkeypatch):
    """Trainings have one epoch unless their number is given, searches are small: what they learn is not looked at."""
    for place in ("estimator.resolve", "methods.contrastive.estimator", "methods.crl_tac.estimator"):
        monkeypatch.setattr(f"viewsmith.{place}.default_epochs", lambda *_: 1)
    with smaller():
        yield


QUICK = {"tables.md"}


@pytest.mark.parametrize(
    "path", [pytest.param(path, id=path.name) if path.name in QUICK else slow(path, id=path.name) for path in WITH_CODE]
)
def test_the_code_of_the_documents_runs(path, workplace, short_trainings):
    torch.manual_seed(0)
    names, found = {}, blocks(path)
    for kind, code in found:
        run(kind, code, names)
    assert any(kind == "python" for kind, _ in found)


def test_there_are_documents_with_code():
    assert len(WITH_CODE) >= 15


def api_names():
    """Every name in docs/api.md: modules, objects, and the members listed with them."""
    text = (ROOT / "docs" / "api.md").read_text(encoding="utf-8")
    for name, options in re.findall(r"^\.\. auto\w+:: (\S+)\n((?:   :.*\n)*)", text, re.MULTILINE):
        yield name
        members = re.search(r":members: (.+)", options)
        yield from (f"{name}.{member.strip()}" for member in (members[1].split(",") if members else ()))


def documented(name):
    """Whether there is what a name stands for, and it has a docstring."""
    parts = name.split(".")
    for cut in range(len(parts), 0, -1):
        try:
            found = importlib.import_module(".".join(parts[:cut]))
        except ModuleNotFoundError:
            continue
        for part in parts[cut:]:
            found = getattr(found, part, None)
        return bool(getattr(found, "__doc__", None))
    return False


def test_the_names_of_the_api_page_exist():
    names = list(api_names())
    assert len(names) > 60 and not [name for name in names if not documented(name)]


def test_the_table_of_data_options_is_that_of_the_declaration():
    texts, flags = texts_of(DataOptions), {p.name: p for c in COMMANDS.values() for p in c.params}
    rows = ["| option | flag | default | meaning |", "|---|---|---|---|"]
    for field in dataclasses.fields(DataOptions):
        if field.name in texts:
            flag = f"`{flags[field.name].opts[0]}`" if field.name in flags else ""
            meaning = texts[field.name].partition("\n\n")[0].replace("\n", " ")
            rows.append(f"| `{field.name}` | {flag} | `{field.default!r}` | {meaning} |")
    given = (ROOT / "docs" / "data.md").read_text().partition("<!-- options -->\n")[2].partition("\n<!-- end -->")[0]
    assert given == "\n".join(rows)
