"""Formats that are not read: what they are, and the line of code that converts them.

A line is meant to be run as it stands, and the tests run it: it is Python in quotes of a shell, and writes into the
working folder.
"""

import os
import re
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from viewsmith.core.errors import InputError, name_list, one_line, pluralize
from viewsmith.data.places import DICOM, TEXT_TABLES, extension_of, open_packed
from viewsmith.data.text_lines import is_numeral, lines_of_text

_CELLS = "write an .h5ad file (anndata, scanpy)"
_IN_R = "open it in R and write an .h5ad file (zellkonverter::writeH5AD), or a table (write.csv)"

#: What to do with files whose format says enough.
_ADVICE = {
    ".asc": "rename it to .txt, .csv or .tsv if it is a table",
    **dict.fromkeys((".xls", ".ods"), "save it as .xlsx or .csv"),
    **dict.fromkeys(
        (".pkl", ".pickle", ".joblib", ".pt", ".pth", ".ckpt"), "files are never unpickled; save an .npz file"
    ),
    **dict.fromkeys((".rds", ".rda", ".rdata"), _IN_R),
    ".xml": "it has annotations rather than samples: give the file or folder of the samples",
    ".json": "save a table as .jsonl, pandas.read_json(FILE).to_json(OUT, orient='records', lines=True); beside "
    "annotations give the file or folder of the samples",
    **dict.fromkeys(
        (".czi", ".lif", ".nd2", ".oib", ".oif", ".mrxs"),
        "save it as OME-TIFF, which keeps depth and channels, in the program of the microscope or in Fiji",
    ),
    **dict.fromkeys(
        (".zip", ".tar", ".tgz", ".tar.gz", ".7z", ".rar"), "it is an archive: unpack it, and give its folder"
    ),
    **dict.fromkeys((".pdb", ".cif", ".ent"), "it has places of atoms: give its sequences as FASTA"),
    **dict.fromkeys((".cel", ".idat"), _IN_R),
    **dict.fromkeys(
        (".tfrecord", ".tfrecords", ".lmdb", ".beton", ".zarr.zip"),
        "write its samples to an .npz file, X, y, or to files in FOLDER/CLASS",
    ),
    **dict.fromkeys((".m4a", ".aac", ".wma"), "ffmpeg -i {0} {0.stem}.wav, and give {0.stem}.wav"),
    **dict.fromkeys((".bam", ".sam", ".cram"), "samtools fasta {0} > {0.stem}.fasta, and give {0.stem}.fasta"),
    **dict.fromkeys((".gff", ".gff3", ".gtf"), "it has places rather than letters: give a .bed file (--genome)"),
}

_ELECTRODES = (".locs", ".loc", ".ced", ".elc", ".sfp", ".elp")
_NO_FORMAT = ("", ".txt", ".dat")  # endings of texts that do not say what is in them

# Of other files of text, whose lines have as many fields each, a line of code is given.
_KNOWN = set(_ADVICE) - {".tab", ".asc"}
_ADVICE |= dict.fromkeys((".md", ".pdf", ".docx", ".html"), "it is a document: give the file or folder of the samples")


@dataclass(frozen=True)
class Format:
    """A format that is not read."""

    what: str  #: a noun with its article
    code: str  #: Python with ``{path}`` and ``{out}``, the file that it writes
    package: str = ""  #: to install for that, beside what viewsmith needs
    suffix: str = ".npy"  #: of the written file
    options: str = ""  #: with which it is given to commands
    of_folder: str = ""  #: these for all files of a folder, which the code takes as ``{path}``, too; empty: it does not


_LONG = " --length 10s"
_EEG = Format(
    "a recording of EEG or other signals",
    "import numpy as np, mne; a = mne.io.read_raw({path}); np.savez({out}, X=a.get_data(), fs=a.info['sfreq'])",
    "mne",
    ".npz",
    _LONG,
)
_FRAMES = {".dta": ("stata", ""), ".sas7bdat": ("sas", ""), ".xpt": ("sas", ""), ".orc": ("orc", "pyarrow")}
_FRAMES |= dict.fromkeys((".sav", ".zsav", ".por"), ("spss", "pyreadstat"))
_PICTURE = Format("an image", "from PIL import Image; Image.open({path}).save({out})", suffix=".png")
_JPEG2000 = Format(  # of any depth, which Pillow would reduce to 8 bits in color
    "a JPEG 2000 image",
    "import imagecodecs, tifffile; tifffile.imwrite({out}, imagecodecs.imread({path}))",
    "'viewsmith[microscopy]'",
    ".tif",
)
_VOLUME = Format("a volume", "import nibabel; nibabel.save(nibabel.load({path}), {out})", "nibabel", ".nii")
_VIDEO = Format(
    "a video", "import imageio.v3 as iio, numpy as np; np.save({out}, iio.imread({path}))", "imageio[ffmpeg]"
)
_FIELDS = (
    Format(  # of the largest variable, a map for each time or level; its mean where there is none, such as on land
        "a file of fields on a grid",
        "import numpy as np, xarray as xr; d = xr.open_dataset({path}); a = d[max(d, key=lambda v: d[v].size)]; "
        "np.save({out}, a.fillna(a.mean()).values.reshape(-1, *a.shape[-2:], 1).astype('f4'))",
        "xarray netcdf4 cfgrib",
    )
)
_SEISMIC = Format(  # a recording in each file; traces from the last of their starts, NaN after an end
    "a seismogram",
    "import numpy as np, obspy, pathlib; p = pathlib.Path({path}); f = [p] if p.is_file() else "
    "sorted(p.rglob('*{suffix}')); s = [obspy.read(str(q)).merge(fill_value='interpolate').sort() for q in f]; "
    "[a.trim(max(t.stats.starttime for t in a)) for a in s]; c, n = min(map(len, s)), max(map(len, sum(s[1:], s[0]))); "
    "y = [q.parent.name for q in f]; np.savez({out}, X=np.array([[np.pad(np.float32(t.data), (0, n - len(t)), "
    "constant_values=np.nan) for t in a[:c]] for a in s]), fs=s[0][0].stats.sampling_rate, "
    "**dict(y=y) if len(set(y)) > 1 else dict())",
    "obspy",
    ".npz",
    " --modality series --length 10s",
    " --modality series",
)
_SPECTRA = Format(  # intensities in bins of one m/z
    "a file of mass spectra",
    "import numpy as np, pandas as pd; from pyteomics import KIND; b = np.arange(50, 2001); "
    "pd.DataFrame([np.histogram(s['m/z array'], b, weights=s['intensity array'])[0] for s in KIND.read({path})], "
    "columns=b[:-1]).to_csv({out}, index=False)",
    "pyteomics lxml psims",
    ".csv",
)
_SPECTROMETER = Format(  # a spectrum in each row
    "a file of spectra of GRAMS",
    "import pandas as pd, spc_io; s = spc_io.SPC.from_bytes_io(open({path}, 'rb')); "
    "pd.DataFrame([e.yarray for e in s], columns=s[0].xarray).to_csv({out}, index=False)",
    "spc-io",
    ".csv",
    " --modality spectra",
)
_RAMAN = Format(
    "a file of Raman spectra of Renishaw",
    "import pandas as pd; from renishawWiRE import WDFReader; r = WDFReader({path}); "
    "pd.DataFrame(r.spectra.reshape(-1, len(r.xdata)), columns=r.xdata).to_csv({out}, index=False)",
    "renishawWiRE",
    ".csv",
    " --modality spectra",
)
_OPUS = Format(
    "a spectrum of OPUS",
    "import numpy as np; from brukeropus import read_opus; a = read_opus({path}).a; np.savetxt({out}, np.c_[a.x, a.y])",
    "brukeropus",
    ".xy",
)
_MOLECULES = Format(  # circular fingerprints of radius 2
    "a file of molecules",
    "import numpy as np; from rdkit import Chem; from rdkit.Chem import rdFingerprintGenerator as g; "
    "f = g.GetMorganGenerator(2).GetFingerprintAsNumPy; "
    "np.save({out}, np.array([*map(f, filter(None, Chem.READER))], 'f4'))",
    "rdkit",
)
_RDKIT = {".sdf": "SDMolSupplier({path})", ".smi": "SmilesMolSupplier({path}, titleLine=False)"}
_RAW = Format(
    "a raw photograph",
    "import rawpy, tifffile; tifffile.imwrite({out}, rawpy.imread({path}).postprocess(output_bps=16))",
    "rawpy",
    ".tif",
)
_ITK = Format("a volume", "import SimpleITK as s; s.WriteImage(s.ReadImage({path}), {out})", "SimpleITK", ".nii.gz")
_VARIANTS = Format(  # numbers of other alleles, 0 to 2, of each sample
    "a file of variants",
    "import allel as a, numpy as np; np.save({out}, a.GenotypeArray(a.read_vcf({path})['calldata/GT']).to_n_alt().T)",
    "scikit-allel",
)
PLINK = Format(
    "a file of genotypes (PLINK)",
    "import numpy as np; from bed_reader import open_bed; x = open_bed({path}).read(); "
    "np.save({out}, np.where(np.isnan(x), np.nan_to_num(np.nanmean(x, 0)), x))",
    "bed-reader",
)
_MOTION = Format(  # positions and turns of joints, a row for each moment
    "a file of motion",
    "import numpy as np; s, x = open({path}).read().split('Frame Time:')[1].split(chr(10), 1); "
    "np.savez({out}, X=np.array([r.split() for r in x.splitlines() if r.strip()], 'f4').T, fs=round(1 / float(s), 2))",
    suffix=".npz",
    options=" --length 2s",
)
_TRACK = Format(
    "a track of places",
    "import gpxpy, pandas as pd; pd.DataFrame([(p.time, p.latitude, p.longitude) for t in "
    "gpxpy.parse(open({path})).tracks for s in t.segments for p in s.points], columns=['time', 'lat', 'lon'])"
    ".to_csv({out}, index=False)",
    "gpxpy",
    ".csv",
    " --modality series --time time --rate 1 --length 60s",
)
_BIOM = Format(
    "a table of taxa (BIOM), with samples in columns",
    "import biom; biom.load_table({path}).to_dataframe(dense=True).T.to_csv({out}, index_label='sample')",
    "biom-format",
    ".csv",
)
_CYTOMETRY = Format(  # markers on the scale of cytometry: linear near 0, with cofactor 5 (mass) or 150 (fluorescence)
    "a file of flow or mass cytometry",
    "import flowio, numpy as np, pandas as pd, pathlib, re; p = pathlib.Path({path}); r = lambda f: (lambda a: "
    "pd.DataFrame(a.as_array(), columns=[s or n for n, s in zip(a.pnn_labels, a.pns_labels)]).assign(file=f.stem))"
    "(flowio.FlowData(f, ignore_offset_error=True)); "
    "x = pd.concat([r(f) for f in ([p] if p.is_file() else sorted(p.rglob('*.[fF][cC][sS]')))], join='inner'); "
    "k = 150 if any(c[:3] == 'FSC' for c in x) else 5; "
    "m = [c for c in x if not re.match('(?i)time|fsc|ssc|event|cell_?length|file', c)]; "
    "x[m] = np.arcsinh(x[m] / k); x.to_csv({out}, index=False)",
    "flowio",
    ".csv",
    " --drop file",
    " --groups file",
)
_EVENTS = Format(  # how often activities are in each trace, and follow one another
    "a log of events (XES)",
    "import gzip, pandas as pd, xml.etree.ElementTree as E; from collections import Counter as C; "
    "o = gzip.open if {path}.endswith('gz') else open; v = lambda e: dict((a.get('key'), a.get('value')) for a in e "
    "if a.get('key')); t = [(v(r), [v(e).get('concept:name', '') for e in r if e.tag.endswith('event')]) "
    "for r in E.parse(o({path}, 'rb')).iter() if r.tag.endswith('trace')]; "
    "pd.DataFrame([C(s + [x + ' > ' + y for x, y in zip(s, s[1:])]) for _, s in t]).fillna(0)"
    ".join(pd.DataFrame([a for a, _ in t]).add_prefix('case:')).to_csv({out}, index=False)",
    suffix=".csv",
)
ANNOTATIONS = (".atr", ".qrs", ".ecg")  # of WFDB records

FORMATS: dict[str, Format] = {
    **dict.fromkeys((".set", ".fif", ".vhdr", ".gdf", ".cnt"), _EEG),
    **dict.fromkeys((".jp2", ".j2k"), _JPEG2000),
    ".safetensors": Format(
        "a file of tensors",
        "import numpy as np; from safetensors.numpy import load_file; np.savez({out}, **load_file({path}))",
        suffix=".npz",
    ),
    **dict.fromkeys((".avif", ".tga", ".psd", ".dds", ".sgi", ".pcx", ".ico", ".mpo"), _PICTURE),
    **dict.fromkeys((".mgz", ".mgh", ".mnc"), _VOLUME),
    **dict.fromkeys((".mp4", ".avi", ".mov", ".mkv"), _VIDEO),
    **dict.fromkeys((".nc", ".nc4", ".grib", ".grb", ".grib2", ".grb2"), _FIELDS),
    **dict.fromkeys((".mseed", ".miniseed", ".sac", ".gse2"), _SEISMIC),
    **{f".{kind}": replace(_SPECTRA, code=_SPECTRA.code.replace("KIND", kind)) for kind in ("mzml", "mzxml", "mgf")},
    **{end: replace(_MOLECULES, code=_MOLECULES.code.replace("READER", of)) for end, of in _RDKIT.items()},
    **dict.fromkeys((".dng", ".cr2", ".cr3", ".nef", ".arw", ".raf", ".orf", ".rw2"), _RAW),
    ".bvh": _MOTION,
    ".gpx": _TRACK,
    ".biom": _BIOM,
    ".spc": _SPECTROMETER,
    ".wdf": _RAMAN,
    ".0": _OPUS,
    **dict.fromkeys((".nrrd", ".nhdr", ".mha", ".mhd"), _ITK),
    **dict.fromkeys((".vcf", ".vcf.gz"), _VARIANTS),
    ".abf": Format(
        "a recording of Axon",
        "import numpy as np, pyabf; a = pyabf.ABF({path}); n, c = a.sweepCount, a.channelCount; "
        "np.savez({out}, X=a.data.reshape(c, n, -1).transpose(1, 0, 2), fs=a.dataRate)",
        "pyabf",
        ".npz",
        " --modality series",
    ),
    ".nwb": Format(
        "a recording of neurophysiology (NWB)",
        "import h5py, numpy as np; g = next(v for v in h5py.File({path})['acquisition'].values() if 'data' in v); "
        "np.savez({out}, X=np.atleast_2d(g['data'][:].T), fs=g['starting_time'].attrs['rate'])",
        "h5py",
        ".npz",
        _LONG,
    ),
    ".gct": Format(
        "a table of GenePattern, with samples in columns",
        "import pandas as pd; pd.read_csv({path}, sep=chr(9), skiprows=2, index_col=0).iloc[:, 1:].T.to_csv({out}, "
        "index_label='sample')",
        suffix=".csv",
    ),
    **{
        suffix: Format(
            "a table", f"import pandas as pd; pd.read_{kind}({{path}}).to_csv({{out}}, index=False)", package, ".csv"
        )
        for suffix, (kind, package) in _FRAMES.items()
    },
    **dict.fromkeys(
        (".libsvm", ".svmlight", ".svm"),
        Format(
            "a file of libsvm",
            "import numpy as np; from sklearn.datasets import load_svmlight_file; x, y = load_svmlight_file({path}); "
            "np.savez({out}, X=x.toarray(), y=y)",
            suffix=".npz",
        ),
    ),
    ".fcs": _CYTOMETRY,
    **dict.fromkeys((".xes", ".xes.gz"), _EVENTS),
    **dict.fromkeys(
        (".heic", ".heif"),
        Format(
            "an image",
            "import pillow_heif; pillow_heif.register_heif_opener(); from PIL import Image; "
            "Image.open({path}).save({out})",
            "pillow-heif",
            ".png",
        ),
    ),
    **dict.fromkeys(
        (".sto", ".stk"),
        Format(
            "an alignment (Stockholm)",
            "from Bio import SeqIO; from Bio.SeqRecord import SeqRecord as R; "
            "t = [(v.seq.replace('-', '').replace('.', '').upper(), v.id) for v in SeqIO.parse({path}, 'stockholm')]; "
            "SeqIO.write([R(s.back_transcribe(), i, description='') for s, i in t], {out}, 'fasta')",
            "biopython",
            ".fasta",
        ),
    ),
    **{
        f".{suffix}": Format(
            "a file of sequences",
            f"from Bio import SeqIO; SeqIO.convert({{path}}, '{name}', {{out}}, 'fasta')",
            "biopython",
            ".fasta",
        )
        for suffix, name in (("embl", "embl"), ("pir", "pir"), ("sff", "sff"), ("ab1", "abi"), ("2bit", "twobit"))
    },
}


def advice(extension: str, path: Path) -> str:
    """What to do with a file of this extension; empty if nothing is known."""
    return _ADVICE.get(extension.lower(), "").format(path)


def refuse(path: Path, extension: str, *, texts: bool = True) -> None:
    """Raise InputError for a file that is there, of a format that is known and not read, with the line that converts
    it; `texts`: also for texts without a known extension that are tables."""
    extension, form = extension.lower(), FORMATS.get(extension.lower())
    if not path.is_file():
        return
    if extension in (".dat", ".atr") and (header := path.with_suffix(".hea")).is_file():
        raise InputError(f"{path} belongs to the record {header.name}: give {header}")
    elif extension in ANNOTATIONS:
        raise InputError(
            f"{path} has annotations of a WFDB record, and no signal: give the header {path.stem}.hea with its signals"
        )
    elif extension == ".hdr":
        form = _VOLUME  # Analyze; those of ENVI are read
    elif extension == ".fdt" and (header := path.with_suffix(".set")).is_file():
        raise InputError(f"{path} belongs to {header.name}: {sentence(header, _EEG)}")
    elif extension in _ELECTRODES:
        files = sorted(path.parent.iterdir())
        read = [file for file in files if file.suffix.lower() in (".edf", ".bdf")]
        beside = [file for file in files if FORMATS.get(file.suffix.lower()) is _EEG]
        way = f": {sentence(beside[0], _EEG)}" if beside else " (.set, .edf, .bdf)"
        way = f" {read[0]}" if read else way
        raise InputError(f"{path} has places of electrodes rather than samples; give the recording{way}")
    elif extension in (".h5", ".hdf5"):
        form = _of_keypoints(path)
    elif extension in _NO_FORMAT and _starts_like_uniprot(path):
        several = path.read_bytes().count(b"\n//") > 1
        line = command(path, _UNIPROT, "" if several else _WINDOWS)
        raise InputError(f"{path} is {_UNIPROT.what}{'' if several else '; one is cut into windows of 100'}: {line}")
    elif extension not in DICOM and _is_dicom(path):
        raise InputError(f"{path} is a DICOM file without its ending: rename it to {path.name}.dcm")
    if extension.replace(".gz", "") in _NO_FORMAT:
        form = form or _by_first_lines(path)
    if form is not None:
        raise InputError(sentence(path, form))
    if texts and extension not in _KNOWN and (form := _text_table(path)) is not None:
        said = f"the extension {extension!r}" if extension else "no extension"
        raise InputError(f"{path} has {said}; if it is a table: {command(path, form)}")


_DICOM = Format(
    "",
    "import os, pathlib, shutil; a = pathlib.Path({path}); "
    "b = [(f, os.path.join({out}, str(f.relative_to(a)) + '.dcm')) for f in a.rglob('*') if f.is_file()]; "
    "[(os.makedirs(os.path.dirname(g), exist_ok=True), shutil.copy(f, g)) for f, g in b if f.name != 'DICOMDIR']",
    suffix="_dcm",
)


_GEO = Format(  # with what is said of the samples, such as tissue: lung
    "a series of GEO, with samples in columns",
    "import gzip, pandas as pd; o = gzip.open if {path}.endswith('gz') else open; "
    "h = [r.replace(chr(34), '').strip(chr(10)).split(chr(9)) for r in o({path}, 'rt') if r[:8] == '!Sample_']; "
    "x = pd.read_csv({path}, sep=chr(9), comment='!', index_col=0).T; x.join(pd.DataFrame([dict(v.split(': ', 1) "
    "for v in s if ': ' in v) for s in zip(*[r[1:] for r in h if 'characteristics' in r[0]])], index=x.index))"
    ".to_csv({out}, index_label='sample')",
    suffix=".csv",
)


_TRACKS = Format(  # SLEAP: (animals, coordinates, points, moments)
    "a file of keypoints of SLEAP",
    "import h5py, numpy as np; t = h5py.File({path})['tracks'][:]; np.savez({out}, X=t.reshape(-1, t.shape[-1]))",
    "h5py",
    ".npz",
    " --modality series --length 60",
)
_POSES = Format(
    "a file of keypoints of DeepLabCut",
    "import pandas as pd; pd.read_hdf({path}).to_csv({out})",
    "tables",
    ".csv",
    " --modality series --length 60",
)


def _of_keypoints(path: Path) -> Format | None:
    """The format of a file of HDF5 that has keypoints of animals in the layout of another program."""
    try:
        import h5py

        with h5py.File(path, "r") as file:
            if {"tracks", "node_names"} <= file.keys():
                return _TRACKS
            return _POSES if "df_with_missing" in file else None
    except (ImportError, OSError, RuntimeError, ValueError):
        return None


_CIFAR = Format(
    "",
    "import numpy as np, pathlib; p = pathlib.Path({path}); "
    "a, b = (np.concatenate([np.fromfile(f, 'u1').reshape(-1, 3073) for f in sorted(p.glob(n))]) "
    "for n in ('data_batch_*', 'test_batch*')); x = lambda d: d[:, 1:].reshape(-1, 3, 32, 32).transpose(0, 2, 3, 1); "
    "np.savez({out}, X_train=x(a), y_train=a[:, 0], X_test=x(b), y_test=b[:, 0])",
    suffix=".npz",
)


def _refuse_cifar(folder: Path) -> None:
    """Raise InputError for a folder of CIFAR as programs in C or Python read it, with the way on."""
    if (folder / "data_batch_1.bin").is_file():
        raise InputError(f"{folder} has the files of CIFAR-10 for C programs: {command(folder, _CIFAR)}")
    if (folder / "batches.meta").is_file() or all((folder / name).is_file() for name in ("meta", "train", "test")):
        raise InputError(
            f"{folder} has pickles of CIFAR, which are never opened, because they can run code: give the version for C "
            "programs (cifar-10-batches-bin), or files of parquet or images"
        )


def _is_dicom(path: Path) -> bool:
    with path.open("rb") as file:
        return file.read(132)[128:] == b"DICM"


def _starts_like_uniprot(path: Path) -> bool:
    with path.open("rb") as file:
        return re.match(rb"ID   \S+ +(Unr|R)eviewed; +\d+ AA\.", file.read(200)) is not None


def _by_first_lines(path: Path) -> Format | None:
    """The format of a text that its first lines tell."""
    try:
        with open_packed(path) as file:
            lines = [line.partition(b"#")[0] for line in file.read(100_000).splitlines()[:6]]
    except Exception:  # damaged, of any library that unpacks
        return None
    if lines and lines[0].startswith(b"!Series_"):
        return _GEO
    # Of libsvm: a label, and numbers after their rising places, as 1 3:0.5 11:1 14:2.
    pairs = [re.findall(rb"(?<=\s)(\d+):\S+", line) for line in lines]
    rising = all(sorted(set(map(int, each))) == list(map(int, each)) for each in pairs)
    whole = all(len(line.split()) == 1 + len(each) for line, each in zip(lines[:5], pairs, strict=False))
    many = sum(map(len, pairs)) >= 3 * len(lines)  # times of day are few
    return FORMATS[".libsvm"] if lines and rising and whole and many else None


def _text_table(path: Path) -> Format | None:
    """What reads a text file whose lines have equal numbers of fields, one less in a header at most."""
    if (found := lines_of_text(path)) is None:
        return None
    named = len(found.rows[-1]) > len(found.rows[0])  # a header, in which the column of names has none
    header = "" if named or not any(is_numeral(cell) for cell in found.rows[0]) else ", header=None"
    separator = {"\t": "chr(9)", r"\s+": "r'\\s+'"}.get(found.separator, f"'{found.separator}'")
    read = f"pd.read_csv({{path}}, sep={separator}, comment='#'{header})"
    code = f"import pandas as pd; {read}.to_csv({{out}}{'' if named else ', index=False'})"
    return Format("a text table", code, suffix=".csv")


def command(path: Path, form: Format, key: str = "") -> str:
    """The line that converts a file, for a shell, and what to give then."""
    stem = path.name.split(".")[0] or "data"
    out = stem + form.suffix
    code = form.code.format(
        path=quoted_path(path), folder=quoted_path(path.parent), out=quoted_path(out), key=key, suffix=path.suffix
    )
    first = f"pip install {form.package}, then " if form.package else ""
    return f'{first}python -c "{code}", and give {out}{form.options}'


def sentence(path: Path, form: Format, key: str = "") -> str:
    """What a file is, and the line that converts it."""
    return f"{path} is {form.what}, which is not read yet: {command(path, form, key)}"


def quoted_path(path: str | Path) -> str:
    """A path as a literal of Python in double quotes of a shell; FILE if it has characters that end or change these."""
    text = str(path)
    return "'FILE'" if set(text) & set("'\"$`\\!\n\r") or not text.isprintable() else f"'{text}'"


_UNIPROT = Format(
    "a text of UniProt with proteins, which is not read yet",
    "n = chr(10); s = [(e.split()[1], ''.join(e.split(n + 'SQ ')[1].splitlines()[1:]).replace(' ', '')) "
    "for e in open({path}).read().split(n + '//')[:-1]]; "
    "{key}open({out}, 'w').write(''.join('>' + a + n + t + n for a, t in s))",
    suffix=".fasta",
)
_WINDOWS = "s = [(a + '/' + str(i + 1), t[i:i+100]) for a, t in s for i in range(0, max(1, len(t) - 99), 50)]; "


def letters_way(path: Path, fault: str) -> str:
    """What to do with gaps and unknown letters of a FASTA file, for the end of a message about a letter."""
    edit = "y/Xx/Nn/" if "write N" in fault else "s/[-.*]//g" if "remove gaps" in fault else ""
    return f": sed '/^>/!{edit}' {path} > {path.name.split('.')[0]}_letters.fasta" if edit else ""


def hidden_letters(path: Path) -> str:
    """The line that makes lower-case letters of a FASTA file unknown."""
    stem = path.name.split(".")[0]
    unknown = "to leave them out, write N (proteins: X)"
    plain = path.suffix.lower().startswith((".f", ".pep")) and path.suffix.lower() not in (".fastq", ".fq")
    return f"{unknown}: sed '/^>/!y/acgtu/NNNNN/' {path} > {stem}_masked.fasta" if plain else unknown


_DOCUMENTS = Format(  # frequent words, by how few documents have them
    "",
    "import numpy as np, pathlib; from sklearn.feature_extraction.text import TfidfVectorizer as T; "
    "p = sorted(pathlib.Path({path}).rglob('*.txt')); x = T(max_features=5000, sublinear_tf=True, min_df=2)"
    ".fit_transform([f.read_text(errors='ignore') for f in p]); "
    "np.savez({out}, X=x.toarray().astype('f4'){key})",
    suffix=".npz",
)
DOCUMENTS = 10  # texts, from which on they are samples


def _refuse_documents(folder: Path, files: list[Path]) -> None:
    """Raise InputError for a folder of texts in words, with the line that counts their words."""
    some = files[:: -(-len(files) // DOCUMENTS)] if files else []
    if len(files) < DOCUMENTS or 2 * sum(lines_of_text(file) is not None for file in some) > len(some):
        return
    words = [word for file in some for word in file.read_bytes()[:10_000].decode("utf-8", "ignore").split()]
    if 2 * sum(any(map(str.isalpha, word)) for word in words) < len(words) or len(words) < 10 * len(some):
        return
    labeled = len({file.parent for file in files}) > 1
    line = command(folder, _DOCUMENTS, ", y=[f.parent.name for f in p]" if labeled else "")
    raise InputError(f"{folder} has {len(files):,} texts, whose words can be counted: {line}")


MOST_FILES = 100_000  # that are looked at in a folder


def _files(folder: Path) -> Iterator[Path]:
    """Files in a folder and its folders, without hidden ones."""
    seen = 0
    for place, inner, names in os.walk(folder):
        inner[:] = sorted(name for name in inner if not name.startswith("."))
        for name in sorted(names):
            seen += 1
            if seen > MOST_FILES:
                return
            if not name.startswith("."):
                yield Path(place) / name


def refuse_unread(path: Path) -> None:
    """Raise InputError for a file or folder of which the endings alone say that it is not read, before torch is
    imported."""
    if path.is_file():
        refuse(path, extension_of(path), texts=False)
    elif path.is_dir() and not path.suffix and {extension_of(file).lower() for file in _files(path)} <= FORMATS.keys():
        refuse_folder(path)


def refuse_folder(folder: Path, read: Collection[str] = ()) -> None:
    """Raise InputError for a folder without images that has something else, with what to do about it; `read` has the
    endings of files that are read."""
    found: dict[str, list[Path]] = {}
    _refuse_cifar(folder)
    if (folder / "state.json").is_file() and (folder / "dataset_info.json").is_file():
        raise InputError(f"{folder} is a data set on disk without its files .arrow: copy it from its source again")
    for file in _files(folder):
        found.setdefault(extension_of(file).lower(), []).append(file)
        if file.name in ("barcodes.tsv", "barcodes.tsv.gz") and not any(file.parent.glob("matrix.mtx*")):
            raise InputError(
                f"{file.parent} is a 10x folder without matrix.mtx or matrix.mtx.gz: copy it from its source again"
            )
        if extension_of(file) not in read and _is_dicom(file):
            raise InputError(f"{folder} has DICOM files without the ending .dcm: {command(folder, _DICOM)}")
    if found and found.keys() <= {*ANNOTATIONS}:
        stems = sorted({f"{file.stem}.hea" for files in found.values() for file in files})
        raise InputError(
            f"{folder} has annotations of WFDB records, and no signals: put the headers and signals beside them, "
            f"{name_list(stems, 3)}"
        )
    _refuse_documents(folder, found.get(".txt", []))
    for wanted in ([ending for ending in read if ending not in TEXT_TABLES], FORMATS, TEXT_TABLES):
        counts = Counter({suffix: len(files) for suffix, files in found.items() if suffix in wanted})
        if not counts:
            continue
        ((suffix, count),) = counts.most_common(1)
        first = found[suffix][0]
        if wanted is not FORMATS:
            below = {folder / file.relative_to(folder).parts[0] for file in found[suffix]}
            if count > 1 and len(below) == 1 and (only := below.pop()).is_dir():
                raise InputError(f"{folder}: its {count:,} files {suffix} are in a folder of their own; give {only}")
            names = [one_line(file.relative_to(folder), 60) for each in counts for file in found[each]]
            raise InputError(f"{folder} is a folder without images; give one of its files: {name_list(names)}")
        form = FORMATS[suffix]
        if count > 1 and form.of_folder:
            of_all = replace(form, code=form.code.replace("{suffix}", suffix), options=form.of_folder)
            raise InputError(f"{folder} has {count:,} files {suffix}, each {form.what}: {command(folder, of_all)}")
        rest = f"{folder} has {pluralize(count, f'file {suffix}', f'files {suffix}')}; " if count > 1 else ""
        raise InputError(rest + sentence(first, form))
