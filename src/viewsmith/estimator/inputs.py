"""What users give to `fit`: samples, labels, a neighbor graph and groups; read, checked, and in the form that is
used."""

import dataclasses
import hashlib
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

import numpy as np
import torch
from scipy import sparse
from torch import Tensor, nn

from viewsmith.core.errors import InputError, name_list, one_line, pluralize, warn
from viewsmith.core.registry import find, get
from viewsmith.core.rows import RowSource, is_pil
from viewsmith.core.samples import apply_in_blocks
from viewsmith.data.labels import check_no_leak, few_label_codes, few_label_numbers, group_codes
from viewsmith.data.map_style import collect, is_map_style
from viewsmith.data.places import BUILTIN
from viewsmith.data.readers.h5ad import WHAT, matrix_of
from viewsmith.estimator.arguments import Arguments
from viewsmith.estimator.plan import AXES, WIDE, Facts, TrainingData
from viewsmith.estimator.resolve import view_entries
from viewsmith.frameworks.supervision import FewLabels
from viewsmith.modalities.base import modality_of
from viewsmith.modalities.frames import as_frame
from viewsmith.modalities.tables import is_anndata, speaks_table, table_of
from viewsmith.modalities.vectors.counts import NORMALIZED, check_counts, log_normalize, looks_like_counts, warn_counts
from viewsmith.networks.scaling import PrincipalAxes
from viewsmith.views.base import PrecomputedGraph
from viewsmith.views.neighbors import NeighborSearch, aligned_graph, mutual_neighbors

#: What names of files have, and sequences of letters do not: a folder, or an ending.
FILE_NAME = re.compile(r"[/\\]|\.\w{2,5}$")


class Given(NamedTuple):
    """Samples to fit on, names of their features if they have any, and whether counts were log-normalized."""

    X: Any
    names: list[str] | None
    normalization: Literal["log", "none"]


def given_to_fit(X: Any, options: Arguments, context: Mapping[str, Any] | None) -> Given:
    """Samples to fit on."""
    _check_no_path(X)
    if context is not None and "source" in context.get("data", {}) and not is_anndata(X):
        # The reader of the file has given its columns their roles, and plain numbers have lost their names since.
        return Given(X, context.get("feature_names"), context.get("normalization", "none"))
    X = _only_sequences(X, options.modality)
    given = _cells_to_fit(X, options) if is_anndata(X) else _others_to_fit(X, options, context)
    if options.columns and not speaks_table(given.X) and table_of(given.X) is None:
        raise InputError(
            f"columns gives roles to {name_list(list(options.columns))}, but the data are {type(given.X).__name__} "
            "without named columns: give a DataFrame, or leave columns out"
        )
    return given


def signal_of(context: Mapping[str, Any] | None) -> dict[str, Any]:
    """What a file says of its rows: sampling rate of recordings, and whether they are sound; names of the channels of
    images, and the side of a pixel; the axis of spectra."""
    signal = {} if context is None else context.get("signal", {})
    found = {"sampling_rate": signal.get("rate"), "sound": signal.get("sound") or None}
    found |= {name: signal.get(name) for name in ("channel_names", "micrometers", "axis", "axis_name")}
    return {name: value for name, value in found.items() if value is not None}


def modality_name(options: Arguments, context: Mapping[str, Any] | None) -> str:
    """The modality of samples to fit on: the option, or else that which a file was read as, or else "auto"."""
    if options.modality != "auto" or context is None:
        return options.modality
    return str(context.get("data", {}).get("modality", "auto"))


def given_to_model(X: Any, options: Arguments, facts: Facts) -> Any:
    """Samples for a fitted model, read as those of its fit."""
    _check_no_path(X)
    X = _only_sequences(X, facts.modality)
    log = facts.normalization == "log"
    if is_anndata(X):
        matrix, _ = matrix_of(X, options.layer, options.use_rep, facts.feature_names or None)
        if log:
            check_counts(matrix, _place(options))
        elif options.normalization == "auto" and options.use_rep is None:
            warn_counts(matrix, _place(options))
        return _floats(log_normalize(matrix) if log else matrix)
    if is_map_style(X):
        X = collect(X, facts.modality)
    matrix = X
    if log and speaks_table(X):
        frame = as_frame(X, "the DataFrame")
        matrix = frame[[name for name in facts.feature_names if name in frame.columns]].to_numpy()
    is_matrix = getattr(matrix, "ndim", 0) == 2 and (isinstance(matrix, np.ndarray) or hasattr(matrix, "tocsr"))
    if log and is_matrix and matrix.dtype.kind in "biuf" and looks_like_counts(matrix):
        raise InputError(
            "the data are raw counts, and the model was fitted on counts that were log-normalized: give the AnnData, "
            "or viewsmith.modalities.log_normalize(X)"
        )
    return X


def _check_no_path(X: Any) -> None:
    """Refuse names of files in place of samples: text would be read as DNA; and an image of Pillow alone."""
    if is_pil(X):
        raise InputError("the data is one image, expected several: give a list of images, for one [X]")
    first = X[0] if isinstance(X, list | tuple) and len(X) else X
    is_text = isinstance(first, str)
    named = is_text and first is X and (X in BUILTIN or not X.isalpha())  # whether there is such a file or not
    listed = is_text and (os.path.exists(first) or FILE_NAME.search(first) is not None)
    if isinstance(first, os.PathLike) or named or listed:
        many = "a list of file names" if first is not X else "the name of a file or folder"
        raise InputError(
            f"the data are {many}, such as {one_line(first, 60)!r}, expected samples: read the file or folder with "
            "viewsmith.data.load_dataset(path), and give its x_train"
        )


def _only_sequences(X: Any, modality: str) -> Any:
    """The column of a table that has no other one, if it has sequences of letters: so a ColumnTransformer gives it."""
    if not speaks_table(X) or len(getattr(X, "columns", ())) != 1 or modality == "vectors":
        return X
    from viewsmith.modalities.tables.roles import sequences_of  # with pandas

    column = as_frame(X, "the DataFrame").iloc[:, 0]
    of_letters = modality != "auto" and getattr(modality_of(modality), "alphabet", None) is not None
    return column if of_letters or (modality == "auto" and sequences_of(column) is not None) else X


def _cells_to_fit(cells: Any, options: Arguments) -> Given:
    matrix, names = matrix_of(cells, options.layer, options.use_rep)
    if options.normalization == "log":
        check_counts(matrix, _place(options))
    elif options.normalization == "auto" and names is not None and looks_like_counts(matrix, names):
        warn(f"{_place(options)} has {NORMALIZED}")
    else:
        return Given(_floats(matrix), names, "none")
    return Given(log_normalize(matrix), names, "log")


def _others_to_fit(X: Any, options: Arguments, context: Mapping[str, Any] | None) -> Given:
    """Samples to fit on that are neither an AnnData nor of a file."""
    for name, default in (("layer", None), ("use_rep", None), ("normalization", "auto")):
        if (value := getattr(options, name)) not in (default, "none"):
            instead = " and give viewsmith.modalities.log_normalize(X)" if name == "normalization" else ""
            raise InputError(
                f"{name} is {one_line(value, 60)!r}, which is for an AnnData, but X is of type {type(X).__name__}: "
                f"leave {name} out{instead}"
            )
    names = None if context is None else context.get("feature_names")
    if names is None and speaks_table(X):
        columns = list(getattr(X, "columns", ()))
        # scikit-learn keeps names that are text; 0, 1, ... in order are none.
        if columns != list(range(len(columns))) and not all(isinstance(name, str) for name in columns):
            names = [str(name) for name in columns]
    return Given(collect(X, options.modality) if is_map_style(X) else X, names, "none")


def _place(options: Arguments) -> str:
    """The matrix of an AnnData in messages."""
    return f"X of {WHAT}" if options.layer is None else f"layer {one_line(options.layer, 60)!r} of {WHAT}"


def _floats(matrix: Any) -> Any:
    # Counts of 8 bits in an array would be taken for letters or pixels.
    return matrix.astype(np.float32) if matrix.dtype.itemsize == 1 else matrix


def framework_reads_labels(framework: str | nn.Module) -> bool:
    """Whether a framework, by name or as an object, needs labels."""
    if isinstance(framework, nn.Module):
        return bool(getattr(framework, "reads_labels", False))
    entry = get("framework", framework)
    return entry is not None and bool(getattr(entry.build, "reads_labels", False))


def find_classes(y: Any, n_rows: int, asked: str, instead: str) -> Tensor:
    """Labels as class numbers 0, 1, ..., int64 (n,)."""
    if y is None:
        raise InputError(f"{asked}, but no labels were given: call fit(X, y), or take {instead}")
    values = np.asarray(y)
    if values.shape != (n_rows,):
        raise InputError(f"the labels have shape {values.shape}, expected one for each of the {n_rows} rows")
    if missing := sum(value is None or value != value for value in values.tolist()):
        raise InputError(f"the labels hold {missing} missing values, expected a label for each of the {n_rows} rows")
    classes, codes = np.unique(values.astype(str), return_inverse=True)
    if values.dtype.kind in "if" and len(classes) > 2 and (unlabeled := int((values == -1).sum())):
        warn(
            f"{asked}, and takes -1, the label of {pluralize(unlabeled, 'row')}, as a class: if these have no label, "
            "take supervision='labels' with another framework"
        )
    return torch.from_numpy(codes.astype(np.int64))


def read_labels(
    options: Arguments, y: Any, rows: np.ndarray | RowSource, names: Sequence[str], groups: Mapping[str, Any]
) -> tuple[Tensor | None, FewLabels | None, dict[str, Any]]:
    """Classes for a framework that reads labels, labels of some rows for supervision, and fields of `Facts`: digests
    of the rows whose labels are used, and of labels and aligned groups."""
    few = few_labels(options, rows, y, names)
    given = [] if few is None else [codes_digest(few.codes.numpy())]
    given += [groups["digest"]] if "digest" in groups else []
    used = [] if few is None else sorted(_row_digest(row) for row in rows[few.rows.numpy()])
    fields, framework = {"labeled_rows": "".join(used), "given": " ".join(given)}, options.framework
    if not framework_reads_labels(framework):
        return None, few, fields
    name = framework if isinstance(framework, str) else type(framework).__name__
    asked = f"framework is {name!r}, which reads labels"
    return find_classes(y, len(rows), asked, "another framework"), few, fields


def few_labels(options: Arguments, rows: np.ndarray | RowSource, y: Any, names: Sequence[str]) -> FewLabels | None:
    """Labels of some rows for the supervised term; None without supervision, and then `y` is not looked at."""
    if options.supervision == "none":
        return None
    asked = f"supervision is {options.supervision!r}"
    if framework_reads_labels(options.framework) or getattr(options, "condition", None) == "labels":
        raise InputError(
            f"{asked} with another setting that needs a label for every row (framework supcon, or "
            "condition='labels'): leave one of them out"
        )
    if isinstance(options.framework, str) and not isinstance(find("framework", options.framework).build, type):
        raise InputError(
            f"{asked}, but {options.framework!r} is no framework of pairs of views: use a method with one, "
            "or leave supervision out"
        )
    if not isinstance(rows, np.ndarray):
        raise InputError(
            f"{asked}, but the {len(rows):,} rows stay on disk: give fewer rows, in memory, or leave supervision out"
        )
    if options.supervision == "numbers":
        return FewLabels(torch.from_numpy(few_label_numbers(y, len(rows))), options.supervision_weight)
    codes = few_label_codes(y, len(rows))
    if (table := table_of(rows)) is not None:
        names = [table.columns[number].name for number in table.column_of]
    check_no_leak(rows, codes, names)
    return FewLabels(torch.from_numpy(codes), options.supervision_weight)


def described(labels: FewLabels) -> str:
    """A line about the labels that were used, for the summary and the report."""
    numbers = labels.codes.is_floating_point()
    kind, classes = ("numbers", "") if numbers else ("labels", f" ({int(labels.codes.max()) + 1} classes)")
    return f"supervision by {kind}: {len(labels.rows):,} of {len(labels.codes):,} training rows{classes}"


#: Characters of the digest of a row.
DIGEST = 12


def codes_digest(codes: np.ndarray) -> str:
    """Digest of the numbers of the classes or aligned groups of rows, int64 (n,); `Facts.given` has it of both."""
    return hashlib.sha256(codes.tobytes()).hexdigest()[:16]


def labels_used(model: Any) -> Callable[[Any], np.ndarray] | None:
    """From rows to bool (n,): whether a fitted estimator used labels of such rows (``supervision``); None: of none."""
    joined = model.facts_.labeled_rows
    known = {joined[start : start + DIGEST] for start in range(0, len(joined), DIGEST)}
    if not known:
        return None
    return lambda X: np.array([_row_digest(row) in known for row in model.checked_rows(X)], dtype=bool)


def _row_digest(row: np.ndarray) -> str:
    return hashlib.blake2b(np.ascontiguousarray(row).tobytes(), digest_size=DIGEST // 2).hexdigest()


EXPECTED = "expected a sparse matrix (n, n) or an integer array (n, k) of row numbers, for the n rows of X"


def read_neighbors(given: Any, n_rows: int) -> PrecomputedGraph | None:
    """The graph of `n_rows` rows from what was given as `neighbors`: all stored entries but a row itself are edges."""
    if given is None:
        return None
    matrix = _of_matrix(given, n_rows) if sparse.issparse(given) else _of_array(given, n_rows)
    rows, ends = matrix.nonzero()
    others = rows != ends
    rows, ends = rows[others], ends[others]
    if len(ends) == 0:
        raise InputError("neighbors has no edges between different rows: leave it out to have nearest rows searched")
    degrees = np.bincount(rows, minlength=n_rows)
    offsets = torch.from_numpy(np.concatenate([[0], degrees.cumsum()]).astype(np.int64))
    return PrecomputedGraph(offsets, torch.from_numpy(ends.astype(np.int64)))


def graph_record(graph: PrecomputedGraph | None) -> dict[str, str]:
    """The entry of a graph in a configuration: a fingerprint of its edges; empty without a graph."""
    if graph is None:
        return {}
    digest = hashlib.sha256(graph.offsets.numpy().tobytes())
    digest.update(graph.ends.numpy().tobytes())
    return {"neighbors": digest.hexdigest()[:16]}


def _of_matrix(given: Any, n_rows: int) -> Any:
    if given.shape != (n_rows, n_rows):
        raise InputError(f"neighbors is a sparse matrix {given.shape}, and X has {n_rows} rows: {EXPECTED}")
    found = sparse.csr_array(given, copy=True)
    try:
        found.check_format()
    except ValueError as error:
        raise InputError(f"neighbors is damaged ({error}): {EXPECTED}") from None
    if not np.isfinite(found.data).all():
        raise InputError("neighbors has values that are not finite (NaN or infinite): leave those edges out")
    found.sum_duplicates()
    found.data = np.ones(len(found.data), dtype=np.int8)  # a distance of zero is an edge, too
    return found


def _of_array(given: Any, n_rows: int) -> Any:
    array = np.asarray(given)
    if array.ndim != 2 or array.dtype.kind not in "iu":
        source_name = f"{type(given).__name__} of {array.dtype} {array.shape}"
        hint = "; give scipy.sparse.csr_array(neighbors)" if array.shape == (n_rows, n_rows) else ""
        raise InputError(f"neighbors is {source_name}, {EXPECTED}{hint}")
    if len(array) != n_rows or array.shape[1] == 0:
        raise InputError(f"neighbors is an array {array.shape}, and X has {n_rows} rows: {EXPECTED}")
    wrong = (array < 0) | (array >= n_rows)
    if wrong.any():
        row, column = np.argwhere(wrong)[0]
        raise InputError(
            f"neighbors has {array[row, column]} in row {row}, expected row numbers from 0 to {n_rows - 1}; where rows "
            "have different numbers of neighbors, give a sparse matrix"
        )
    ends = np.repeat(np.arange(n_rows), array.shape[1]), array.ravel().astype(np.int64)
    edges = sparse.csr_array((np.ones(array.size, dtype=np.int32), ends), shape=(n_rows, n_rows))
    edges.sum_duplicates()
    return edges


def with_groups(data: TrainingData, options: Arguments, groups: Any) -> TrainingData:
    """The training data with the graph of ``group_mode="align"``, and summary about the groups for the summary."""
    if groups is None:
        if options.group_mode == "none":
            return data
        raise InputError("group_mode is 'align', but no groups were given: call fit(X, groups=...) (--groups COLUMN)")
    # Neighbors are sought in other groups for each group, which says nothing for a group of one row.
    aligned = options.group_mode == "align"
    codes = torch.from_numpy(group_codes(groups, len(data.rows), alone=not aligned))
    summary: dict[str, Any] = {"groups": int(codes.max()) + 1, "mode": options.group_mode}
    if aligned:
        _check_views(data, options)
        graph, mutual = _aligned(data, codes, options.n_neighbors)
        partners = len(mutual[0].unique())
        summary |= {"digest": codes_digest(codes.numpy())}
        summary |= {"mutual_edges": mutual.shape[1], "rows_with_mutual_neighbors": partners}
        data = dataclasses.replace(data, neighbors=graph)
    return dataclasses.replace(data, groups=summary, group_codes=codes.numpy())


def _check_views(data: TrainingData, options: Arguments) -> None:
    if not isinstance(data.rows, np.ndarray):
        raise InputError(
            f"group_mode is 'align', but the {len(data.rows):,} rows stay on disk: give fewer rows, in memory, or "
            "leave group_mode out"
        )
    view_maker = data.modality.default_views if options.view_maker == "auto" else options.view_maker
    if not any(view.tag("neighbors") for view in view_entries(view_maker, data.modality)):
        raise InputError(
            f"group_mode is 'align', but the views {view_maker!r} use no neighbors: choose the views neighbors or "
            "neighbor-mix (view_maker, --views), or leave group_mode out"
        )
    if options.neighbor_space == "encoder":
        raise InputError(
            "group_mode is 'align', and neighbor_space='encoder' would replace its neighbors during training: leave "
            "one of them out"
        )


def _aligned(data: TrainingData, groups: Tensor, k: int) -> tuple[PrecomputedGraph, Tensor]:
    """The graph of ordinary and mutual neighbors, and the mutual ones, (2, pairs)."""
    x = _coordinates(data)
    mutual = mutual_neighbors(x, groups, k)
    if not mutual.numel():
        raise InputError(
            f"group_mode is 'align', but no two of the {pluralize(int(groups.max()) + 1, 'group')} have mutual nearest "
            "neighbors: raise n_neighbors, or leave group_mode out"
        )
    return aligned_graph(len(x), _default_edges(data.neighbors, x, k), mutual), mutual


def _default_edges(given: PrecomputedGraph | None, x: Tensor, k: int) -> Tensor:
    """Edges of the graph given to fit, or to the k nearest rows, (2, edges)."""
    if given is not None:
        return torch.stack([torch.arange(len(given)).repeat_interleave(given.degrees), given.ends])
    near = NeighborSearch(x, k).graph()
    return torch.stack([torch.arange(len(x))[:, None].expand_as(near).flatten(), near.flatten()])


def _coordinates(data: TrainingData) -> Tensor:
    """Rows in the space in which neighbors are searched: 50 principal axes if there are more than 200 features."""
    features = data.modality.neighbor_features
    if isinstance(data.x, Tensor):
        x = data.x
    elif features(data.x[:1]) is None:
        x = apply_in_blocks(torch.nn.Flatten(), data.x)
    else:
        x = apply_in_blocks(features, data.x)  # type: ignore[arg-type]
    if x.shape[1] <= WIDE:
        return x
    axes = PrincipalAxes(x.shape[1], min(AXES, *x.shape)).to(x)
    axes.fit(x, weighted="columns" not in data.statistics)
    return axes(x)
