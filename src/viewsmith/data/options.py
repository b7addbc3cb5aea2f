"""The options of `load_dataset` and `generate_cache`, each declared once: checks, documentation and flags
follow from here."""

import codecs
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Annotated, Any, Literal, cast

from viewsmith.core.errors import InputError, check, one_line
from viewsmith.core.option_types import check_declared
from viewsmith.core.registry import Bounds, ColumnRole, Flag, Impute, Normalization, texts_of


@dataclass(kw_only=True, repr=False, eq=False)  # an estimator is shown by its changed arguments, and has a hash
class ModelDataOptions:
    """Options of `load_dataset` that are also arguments of estimators, and are saved with a model."""

    layer: Annotated[str | None, Flag("NAME")] = None
    """Layer of an AnnData or h5ad file instead of X."""
    use_rep: Annotated[str | None, Flag("KEY")] = None
    """obsm key of an AnnData or h5ad file instead of X ("X_pca")."""
    normalization: Normalization = "auto"
    """Raw counts of cells are log-normalized: auto, log or none.

    log scales each cell to 10,000 counts and takes log(1 + x); "auto" does so where ``X`` or the layer of an AnnData or
    h5ad file has raw counts (whole numbers, more than half of them zero), and says so. Arrays are never recognized."""
    columns: Annotated[Mapping[str, ColumnRole] | None, Flag("NAME=ROLE,...")] = None
    """Roles of columns of a table: numeric, category, text, date or drop.

    They are used in place of those that are inferred."""
    strict: bool = False
    """Refuse a table with columns that are not numbers, or missing values."""
    impute: Impute = "none"
    """What to do with missing values: none or median.

    none: an error in arrays; in tables they become the median, and an indicator of them is added. median: they become
    the median of the training rows (`load_dataset` leaves them NaN for the model, except in tables that are not plain
    numbers)."""


@dataclass(kw_only=True)
class DataOptions(ModelDataOptions):
    """How a data set is read: the keyword arguments of `load_dataset`, which has the defaults, too."""

    label: Annotated[str | None, Flag("COLUMN")] = None
    """Column of labels, of a table, of obs (h5ad) or of --labels: not a feature, and only supcon trains on it.

    It is never a feature. Of FASTA files a key or part of the headers."""
    labels: Annotated[Path | None, Flag("FILE")] = None
    """Labels of a FASTA file, name and label in two columns; a table of samples; or a map of a scene.

    The columns are separated by a tab or a comma. A table of recordings or images has a column of file names, or of a
    part of these such as the well, and others, which `label` and `groups` name; the one in their folder is found. One
    of the rows of a table has a column of the same names as one of these. With
    `masks` it may have a row for each object, with the number of the object. For moments of recordings it has begins
    and ends; or it is a folder with a file for each recording (Audacity, Raven, Praat). A map is an image of the size
    of a scene whose whole numbers are the classes of its tiles, 0 where there is none; or polygons (.geojson), of
    which `label` is a property."""
    target: Annotated[Literal["auto", "class", "number"] | None, Flag("KIND")] = None
    """Labels are class or number (default: number if they have a fraction, or are a quantity).

    A quantity is more than 50 different integers, in the mean fewer than five rows of each, at least half of the
    integers between them missing. Numbers are float64 in `Dataset.y`, NaN where they are missing; -1 is then no
    missing label."""
    few_labels: bool | None = False
    """Labels may be missing (-1, NaN or empty).

    `Dataset.y` then has -1 or "". `label` may be "y" for files that hold labels without a name."""
    groups: Annotated[str | None, Flag("COLUMN")] = None
    """Groups of the rows: batches, subjects, plates.

    A column of a table or of ``obs``, which is no feature; or an array of an .npz file: ``NAME``, or ``NAME_train`` and
    ``NAME_test``."""
    split_by_groups: Annotated[bool, Flag(name="split-groups")] = False
    """Whole groups are test rows."""
    split_seed: Annotated[int | None, Bounds(ge=0)] = None
    """Seed of the random split of data that have none, default 0.

    What a mixed table is encoded by is fitted on the train rows of this split. If it is given, rows without labels are
    split, too."""
    image_size: Annotated[int | None, Flag("PIXELS"), Bounds(ge=4)] = None
    """Crop and resize images of a folder to squares.

    The center square of every image is resized to this number of pixels per side."""
    length: Annotated[str | float | None, Flag("TIME")] = None
    """Cut recordings into windows of this length: 2s, 500ms, or a number of points; "sounds": where silence ends.

    What is missing after the end of a shorter recording is masked. Default: a few long recordings are cut into windows
    of two seconds, or 1,000 points if the rate is not known; many keep their own lengths."""
    step: Annotated[str | float | None, Flag("TIME")] = None
    """Time between the starts of windows of a recording: 1s, points, or 50% of their length (default: 100%)."""
    rate: Annotated[float | None, Flag("HZ"), Bounds(gt=0)] = None
    """Points per second of recordings; files of another rate are resampled."""
    channels: Annotated[Sequence[str] | None, Flag("NAME,...")] = None
    """Channels of recordings and of images of instruments, by name or number from 0 (default: all)."""
    time: Annotated[str | None, Flag("COLUMN")] = None
    """Column of the times of a table with a row for each moment of recordings: seconds, points or dates."""
    recording: Annotated[str | None, Flag("COLUMN", name="id")] = None
    """Column of such a table that tells recordings apart."""
    axes: Annotated[str | None, Flag("LETTERS")] = None
    """Axes of image files: CYX, ZCYX (default: as the file says).

    A letter for each axis: Y rows, X columns, C channels; of others, such as Z, each place is an image."""
    channel_files: Annotated[str | None, Flag("PATTERN")] = None
    """Each channel of an image is a file: '{well}_w{channel}.tif'.

    Files with the same other fields, and in the same folder, are one image, whose name these fields are."""
    tile: Annotated[int | None, Flag("PIXELS"), Bounds(ge=4)] = None
    """Cut large images into squares of this number of pixels per side, the samples.

    Windows are read where they are needed, so that a scene may be larger than the memory. Squares that are empty are
    left out: without data, of one value, or of a twentieth of the range of the scene in every channel."""
    overlap: Annotated[int | None, Flag("PIXELS"), Bounds(ge=0)] = None
    """Pixels that neighboring tiles share (default: an eighth of their side)."""
    level: Annotated[int | None, Flag("NUMBER"), Bounds(ge=0)] = None
    """Resolution of a slide or OME-Zarr image that has several: 0 is the full one, 1 the next smaller (default: 0).

    Places of tiles are then pixels of that level, and have coordinates, those of the map or pixels of level 0."""
    masks: Annotated[Path | None, Flag("PATH")] = None
    """Masks of images: each object in them is a sample, a square around it.

    An image of the size of each image, of the same name in a folder, with the number of an object or 0 in each pixel,
    as Cellpose and StarDist write it. The side of the squares is `tile` (default: one that holds 9 of 10 objects)."""
    alphabet: Annotated[str | None, Flag("LETTERS")] = None
    """Letters of sequences that are neither DNA nor proteins: HEC (the modality letters:HEC).

    They are upper or lower case; one that is not known is X, or N or ? if X is a letter."""
    genome: Annotated[Path | None, Flag("FASTA")] = None
    """Genome that the intervals of a BED file are of, indexed by samtools or here."""
    width: Annotated[int | None, Flag("LETTERS"), Bounds(ge=1)] = None
    """Length of all sequences of a BED file, around the centers or summits (default: that of each interval)."""
    feature: Annotated[Sequence[str] | None, Flag("TYPE,...")] = None
    """Features of GenBank records that are the samples: CDS, tRNA (default: whole records).

    With the modality proteins, CDS are translated. `label` and `groups` name qualifiers, or are type or strand."""
    encoding: Annotated[str | None, Flag("NAME")] = None
    """Encoding of a text table, or of one of labels (default: UTF-8, or UTF-16 with its mark)."""
    header: Annotated[Literal["auto", "yes", "no"] | None, Flag("KIND")] = None
    """The first line of a text table has names: yes or no (default: by what it has).

    Columns without names are called 0, 1, 2, ..."""
    modality: Annotated[str | None, Flag(lists="modality")] = None
    """Kind of the data (default: found from the data)."""
    drop: Annotated[Sequence[str], Flag("COL,COL")] = ()
    """Columns of a table to leave out."""
    one_hot: Annotated[Sequence[str], Flag("COL,COL")] = ()
    """Text columns of a table to one-hot encode."""
    neighbors: Annotated[str | None, Flag("KEY")] = None
    """Neighbor graph in obsp of an h5ad file, in place of a search.

    The key of a sparse matrix, such as scanpy's ``connectivities``: `Dataset.neighbors`."""
    stream: bool = False
    """Leave vectors and windows of recordings on disk, and read them as they are needed (default: above 1 GiB).

    The size is that of the rows as float32 (`viewsmith.core.rows.STREAM_ABOVE`). Files of recordings stay on disk above
    32 MiB."""
    cache: Annotated[Path | None, Flag("DIR")] = None
    """Folder for decoded images of a folder (default: RUN.cache, above 1 GiB).

    They are read by index from there, and are decoded again if the names, sizes or dates of the files have changed."""
    cache_if_large: Path | None = None
    """As `cache`, for images that take more than a GiB. Without any of the two, images are read into memory."""
    shared: bool = False
    """Several processes read these data: what can be read by index stays on disk, where they share it.

    The model that is trained on it is that of rows in memory. With `cache_if_large`, one process reads tables of
    numbers and FASTA files, and the others its copy of the rows there."""
    schema: dict[str, Any] | None = None
    """``Dataset.schema`` of the data that a run was fitted on.

    The file must have the same columns, in any order. Labels are then optional, and left out if they cannot be used
    (`Dataset.label_fault`) and `label` is not given; a single row is allowed, and rows too few to split are not split.
    Images must have the same shape; DNA may have any length. Options that are not given are those of these data."""
    table: Any = None
    """Encoder of the table that a model was fitted on, ``model.table_`` or ``data.x.table``: a table is read by it."""
    n_train: int | None = None  # of a reader: the first rows, which are for training
    test_groups: Any = None  # of a reader: groups of the rows of a new table that is split by groups

    def checked(self) -> "DataOptions":
        """The options with values of their types, and with those of a fitted run; raises InputError for others."""
        given = {name: getattr(self, name) for name in texts_of(DataOptions).keys() - {"table"}}
        # Scalars of numpy, which is not imported for this, become plain.
        plain = {name: value.item() for name, value in given.items() if hasattr(value, "item") and not value.ndim}
        for name in ("channels", "feature"):
            if isinstance(value := given[name], str):
                plain[name] = [part.strip() for part in value.split(",") if part.strip()]
        if plain:
            return replace(self, **cast(dict[str, Any], plain)).checked()
        for name in given:
            check_declared(self, name)
        try:
            codecs.lookup(self.encoding or "utf-8")
        except LookupError as error:
            raise InputError(
                f"encoding is {one_line(self.encoding, 40)!r}, expected one of Python, such as cp1252 or latin-1"
            ) from error
        if self.split_by_groups and self.groups is None:
            raise InputError("the split is by groups, but no groups were given: add groups (--groups COLUMN)")
        paths: dict[str, Any] = {
            name: Path(path)
            for name in ("labels", "cache", "cache_if_large", "genome", "masks")
            if (path := getattr(self, name)) is not None
        }
        modality = self.modality
        if self.alphabet is not None:
            from viewsmith.modalities.dna.letters import own_alphabet

            modality = own_alphabet(self.alphabet).name
            if self.modality not in (None, modality):
                raise InputError(f"alphabet and modality={self.modality!r} were given: leave one of them out")
        found = replace(
            self,
            modality=modality,
            **cast(dict[str, Any], paths),
            channels=None if self.channels is None else [*self.channels],
            feature=None if self.feature is None else [*self.feature],
            drop=() if self.drop is None else tuple(self.drop),
            one_hot=() if self.one_hot is None else tuple(self.one_hot),
            columns=None if self.columns is None else dict(self.columns),
            few_labels=self.few_labels or None,
            target=None if self.target == "auto" else self.target,
        )
        return found if self.schema is None else found._as_fitted(self.schema)

    def _as_fitted(self, schema: dict[str, Any]) -> "DataOptions":
        for option, given, fitted in (
            ("modality", self.modality, schema["modality"]),
            ("drop", list(self.drop) or None, schema["drop"]),
            ("one_hot", list(self.one_hot) or None, list(schema["one_hot"])),
            ("impute", None if self.impute == "none" else self.impute, schema["impute"]),
        ):
            if given is not None and given != fitted:
                raise InputError(
                    f"{option}={one_line(given, 60)}, but the run was fitted with {one_line(fitted, 60)}; leave it out"
                )
        return replace(self, modality=schema["modality"], drop=(), one_hot=(), impute=schema["impute"])

    def or_fitted(self, option: str) -> Any:
        """The value of an option; if it is not given, the value that the run was fitted with."""
        given = getattr(self, option)
        return given if given is not None or self.schema is None else self.schema.get(option)

    def streams(self, shape: Sequence[int], dtype: Any = "float32") -> bool:
        """Whether rows of this shape stay on disk: if it was asked for, or if they are large."""
        from viewsmith.core.rows import is_large  # imports torch, which is slow

        return self.stream or is_large(shape, dtype)

    def maps(self, shape: Sequence[int], dtype: Any = "float32") -> bool:
        """Whether rows of this shape, in a file that can be read by index, stay there: also for several processes."""
        return self.shared or self.streams(shape, dtype)

    @property
    def target_or_fitted(self) -> Any:
        """What labels are, as given; as in the run, if the label is that of the run; None: by the rule."""
        if self.target is not None or self.schema is None:
            return self.target
        same = self.label in (None, self.schema.get("label")) and self.labels is None
        return self.schema.get("target") if same else None

    def check_no_table_options(self, source: str, labels: str = "", name: str | None = None) -> None:
        """Raise InputError if an option names a column of an array; `labels` says where labels come from instead, or
        their `name` in the file, which is none of a column."""
        # Files that hold their labels as y have no other name for them.
        label = None if self.label == name or (self.few_labels and self.label == "y") else self.label
        for option in ("label", "drop", "one_hot", "columns"):
            if value := label if option == "label" else getattr(self, option):
                todo = labels if labels and option == "label" else f"leave {option} out"
                raise InputError(f"{source} is not a table and has no column for {option}={one_line(value)}; {todo}")


#: How patches are compared with the threshold of the foreground (`viewsmith.views.generated.noise_level.Foreground`).
ForegroundMap = Literal["projection", "min-max"]

#: Of the levels of noise (`viewsmith.views.generated.noise_level.LEVELS`).
LARGEST_LEVEL = 400

#: Samples in a block, by kind of generator.
BLOCKS = {"unclip": 16, "diffusion": 256, "folder": 256}

#: Options that not every generator has, besides `features`.
OF_ONE_KIND = ("run", "guidance", "scheduler", "noise", "steps", "candidates", "epochs")


@dataclass(frozen=True, kw_only=True)
class GeneratorOptions:
    """How views are generated: the keyword arguments of `generate_cache`."""

    generator: str = "diffusion"
    """diffusion (default), unclip:FOLDER or unclip:OWNER/NAME (extra unclip), folder:PATH."""
    run: Annotated[Path | None, Flag("RUN")] = None
    """A DiffAug run with the generator to use; default: diffusion trains one and saves it in the view cache."""
    seed: Annotated[int, Bounds(ge=0)] = 0
    """Same seed, same views."""
    views_per_sample: Annotated[int | None, Flag("K"), Bounds(ge=1)] = None
    """Views of each sample; default: 1, from a folder as many as it has."""
    steps: Annotated[int | None, Bounds(ge=1)] = None
    """Steps of the sampler; default: 20 (unclip), those of the run."""
    guidance: float | None = None
    """Guidance of unclip; default: 10."""
    scheduler: str | None = None
    """Sampler of unclip: ddim, ddpm, dpm, pndm or euler; default: that of the weights."""
    noise: str | None = None
    """adaptive (default), random or constant:L, L from 0 to 400."""
    foreground: ForegroundMap = "projection"
    """Adaptive noise of images: patches are foreground by their projection on the first component, or by min-max of it.

    min-max: scaled to 0 to 1 for each image, as in GenView's equation 7; projection: as it is, as in its program."""
    candidates: Annotated[int | None, Flag("C"), Bounds(ge=1)] = None
    """Views generated for each one that is kept, chosen by quality and novelty (diffusion); default: 1.

    If there are several, those outside the neighborhood of their sample are rejected, and the others are chosen by
    agreement in representation and novelty in input space. With random noise, where the views of a sample differ in
    their level, there is no choice."""
    features: Annotated[Any, Flag("NETWORK")] = "encoder"
    """Network for foreground and quality of images: encoder (default) or clip:FOLDER, clip:OWNER/NAME (extra unclip).

    For diffusion and folder: the image network of CLIP, or a network from scaled images (B, C, H, W) to feature maps
    (B, D, h, w), for every noise; "encoder": the encoder of the run, for adaptive noise only."""
    shard: Annotated[tuple[int, int], Flag("I/N")] = (1, 1)
    """Part of the job, I of N, for folders that are merged."""
    batch_size: Annotated[int | None, Bounds(ge=1)] = None
    """Samples in a block; default: 16 (unclip), 256."""
    epochs: Annotated[int | None, Bounds(ge=1)] = None
    """Epochs of a generator's training; default: as many as fit the minutes."""
    minutes: float | None = None
    """Stop after this many minutes, a generator's training included; default: its training takes at most 10.

    The same call makes what is missing. For the default see `viewsmith.workflows.generate.plan_training`."""
    device: str = "auto"
    """auto, cpu or cuda."""

    @property
    def name(self) -> str:
        """The kind of generator."""
        return self.generator.partition(":")[0]

    @property
    def where(self) -> str:
        """Its weights or path."""
        return self.generator.partition(":")[2]

    def check(self, *, separate: bool = False) -> None:
        """Raise InputError for an unknown generator, or options that it lacks, `separate` features included."""
        for option in texts_of(GeneratorOptions):
            check_declared(self, option)
        if self.noise is not None:
            check_noise(self.noise)
        name, where = self.name, self.where
        known = name in BLOCKS and not (name == "diffusion" and where)
        check(known, "the generator", repr(name), "unclip:WEIGHTS, diffusion or folder:PATH")
        if name == "unclip" and not where:
            raise InputError(
                "the generator unclip needs weights: give unclip:FOLDER, or unclip:OWNER/NAME to download a model from "
                "the hub, such as unclip:stabilityai/stable-diffusion-2-1-unclip"
            )
        if name == "folder" and not where:
            raise InputError("the generator folder needs a path: give folder:PATH")
        accepted = {
            "diffusion": ("run", "noise", "steps", "candidates", "features", "epochs"),
            "unclip": ("guidance", "scheduler", "noise", "steps"),  # it includes a CLIP network
            "folder": ("features",),
        }[name]
        given = [option for option in OF_ONE_KIND if getattr(self, option) is not None]
        for option in [*given, *(["features"] if separate else [])]:
            if option not in accepted:
                raise InputError(f"the generator {name!r} has no option {option}: leave --{option} out")
        if (self.candidates or 1) > 1 and self.noise == "random":
            raise InputError(
                f"candidates is {self.candidates}, and the noise is random, which gives each view a level of its own: "
                "use adaptive or constant:L, or leave --candidates out"
            )
        if self.run is not None and self.epochs is not None:
            raise InputError(f"the generator of {self.run} is trained already: leave --epochs out, or --run")


def check_noise(noise: str) -> str:
    """Return `noise` if it is valid for a generator (`find_levels`)."""
    constant = re.fullmatch(r"constant:(\d{1,3})", noise)
    if noise in ("adaptive", "random") or (constant and int(constant[1]) <= LARGEST_LEVEL):
        return noise
    raise InputError(f"noise is {noise!r}, expected adaptive, random or constant:L with L from 0 to {LARGEST_LEVEL}")


def parse_shard(text: str) -> tuple[int, int]:
    """Convert the text i/n, such as "2/8", to (i, n)."""
    found = re.fullmatch(r"(\d+)/(\d+)", text)
    if found is None or not 1 <= int(found[1]) <= int(found[2]):
        raise InputError(f"the shard is {text!r}, expected i/n with i from 1 to n, such as 1/4")
    return int(found[1]), int(found[2])
