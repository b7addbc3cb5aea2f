"""Tables and answers of the decisive experiments (benchmarks/quality/PLAN.md): writes docs/results/decisive.md."""

from __future__ import annotations

import itertools
import statistics
from collections import defaultdict
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.runner import Cell, done
from benchmarks.quality import study_metaug
from benchmarks.quality.decisive import cell_views, few_label_views, few_rows, generated_views, learned_noise
from benchmarks.quality.generated import study_genview
from benchmarks.tables.formatting import (
    TIES,
    Lines,
    Table,
    by_set,
    collect,
    command,
    differences,
    gain_of,
    gains,
    measured_with,
    section,
    titles,
    write,
)

SCORES = titles("linear", "knn")
FIXED = ("neighbors", "noise", "mixup")
KINDS = (*few_label_views.MAKERS, "mixup")
SUBJECTS = ("wisdm_har", "wisdm_har, fifths")
NOISE = "Learned noise on held-out subjects and batches"
LABELS = "Views as training data for few labels"
GENES = "Generated views of cells as training data"
LADDER = "GenView's ladder on images and DNA"
OF_CELLS = """Protocol: `benchmarks/quality/decisive/cell_views.py`. Differences and accuracies as above."""
OF_LADDER = """Protocol: `benchmarks/quality/decisive/generated_views.py`. Each row minus the one before it, and all
three minus the framework; differences and accuracies as above."""
OF_ROWS = """Protocol: `benchmarks/quality/decisive/few_rows.py`. Differences: paired by set and seed, mean, half of the
95 % interval, number of pairs; then the accuracies, mean ± standard deviation over seeds 0, 1, 2."""
OF_NOISE = """Protocol: `benchmarks/quality/decisive/learned_noise.py`, which also names the rows. Differences as above;
accuracies are means ± standard deviation over five seeds (gas_drift: three) or fifths of the subjects."""
OF_LABELS = """Protocol: `benchmarks/quality/decisive/few_label_views.py`. Differences and accuracies as above."""
# Widths of a tie for probes with 1 % and 5 % of the labels.
PROBES = {1: TIES["linear_1pct"], 5: TIES["linear"]}


def unfolded(path: Path, *, ends: str = "") -> Table:
    """Results of cells with several rows, ``"METRIC ROW"``, by set and row; `ends`: keys end in a number, as in
    ``"METRIC ROW 300"``, which is added to the set's name ("letter, 300 rows").
    """
    table: Table = defaultdict(dict)
    for (name, _), seeds in collect(path).items():
        for seed, found in seeds.items():
            for key, value in found.items():
                metric, _, row = key.partition(" ")
                if not row:
                    continue
                row, _, number = row.rpartition(" ") if ends else (row, "", "")
                table[f"{name}, {number}{ends}" if ends else name, row].setdefault(seed, {})[metric] = value
    return table


def complete(cells: Sequence[Cell], path: Path) -> bool:
    """Whether all cells are measured."""
    return {cell.key for cell in cells} <= done(path)


def rows_table() -> Table:
    return unfolded(few_rows.PATH, ends=" rows") if complete(few_rows.cells(), few_rows.PATH) else {}


def labels_table() -> Table:
    """Accuracies as metrics "h" and "raw", of sets such as "letter, 5 %"."""
    measured = complete(few_label_views.cells(), few_label_views.PATH)
    return unfolded(few_label_views.PATH, ends=" %") if measured else {}


def cells_table() -> Table:
    """Accuracies as metrics "raw", "pca" and "h", of sets such as "sc_10x_pbmc, 1 %"."""
    return unfolded(cell_views.PATH, ends=" %") if complete(cell_views.cells(), cell_views.PATH) else {}


def ladder_table() -> Table:
    measured = complete(generated_views.cells(), generated_views.PATH)
    return unfolded(generated_views.PATH) if measured else {}


def noise_table() -> Table:
    return unfolded(learned_noise.PATH) if complete(learned_noise.cells(), learned_noise.PATH) else {}


def sets_of(sets: Sequence[str], number: int, unit: str) -> list[str]:
    """Names of sets in an unfolded table."""
    return [f"{name}, {number} {unit}" for name in sets]


# ---- answers ----------------------------------------------------------------------------------------------------


def above(table: Table, one: str, other: str, name: str, metric: str) -> bool:
    """Whether the mean difference on a set is above the width of a tie."""
    return statistics.fmean(differences(table, one, other, [name], metric)) > TIES[metric]


def intervals(table: Table, one: str, other: str, sets: Sequence[str], metrics: Mapping[str, str] = SCORES) -> str:
    """Mean differences with half of their 95 % intervals: "linear +0.001 ± 0.002, kNN ..., 6 pairs"."""
    found = {title: differences(table, one, other, sets, metric) for metric, title in metrics.items()}
    parts = [f"{title} {gain_of(gaps)}" for title, gaps in found.items()]
    return f"{', '.join(parts)}, {len(next(iter(found.values())))} pairs"


def positive(found: Sequence[float]) -> bool:
    """Whether the 95 % interval of the mean is above zero."""
    mean, half = (float(part) for part in gain_of(found, 6).split(" ± "))
    return mean > half


def clear(table: Table, one: str, other: str, sets: Sequence[str], metrics: Sequence[str] = tuple(SCORES)) -> bool:
    """Whether at one of the metrics the mean is above the width of a tie, and its interval above zero."""
    found = {metric: differences(table, one, other, sets, metric) for metric in metrics}
    return any(statistics.fmean(gaps) > TIES[metric] and positive(gaps) for metric, gaps in found.items())


def metaug() -> str:
    table, sets = collect(study_metaug.STUDY.path), list(study_metaug.SETS)
    yes, order = (clear(table, "metaug", other, sets) for other in ("contrast", "frozen"))
    return (
        f"{'Yes' if yes else 'No'}: metaug minus contrast {intervals(table, 'metaug', 'contrast', sets)}. The "
        f"gradient {'matters' if order else 'does not matter'}: metaug minus frozen generators "
        f"{intervals(table, 'metaug', 'frozen', sets)}."
    )


def genview() -> str:
    return of_ladder(collect(study_genview.STUDY.path), list(study_genview.SETTINGS))


def genview_on_images() -> str:
    return of_ladder(ladder_table(), list(generated_views.SETS))


def of_ladder(table: Table, sets: Sequence[str]) -> str:
    """The steps of GenView's ladder that add something, and what all of them add."""
    gained = [
        f"{arm} at {title}"
        for before, arm in itertools.pairwise(study_genview.ARMS)
        for metric, title in SCORES.items()
        if positive(differences(table, arm, before, sets, metric))
    ]
    each = [f"{name}: {intervals(table, '+ quality', 'framework', [name])}" for name in sets]
    return (
        f"{'Yes, ' + ', '.join(gained) if gained else 'No step of the ladder does'}: all three minus the framework "
        f"{intervals(table, '+ quality', 'framework', sets)} ({'; '.join(each)})."
    )


def diffaug() -> str:
    table, wins, parts = rows_table(), {}, []
    for count in few_rows.ROWS:
        sets = sets_of(few_rows.SETS, count, "rows")
        wins[count] = sum(
            any(all(above(table, "diffaug", other, name, metric) for other in FIXED) for metric in SCORES)
            for name in sets
        )
        parts.append(f"with {count:,} rows {intervals(table, 'diffaug', 'phase A', sets)}")
    yes = any(2 * count > len(few_rows.SETS) for count in wins.values())
    return (
        f"{'Yes' if yes else 'No'}: it is above neighbors, noise and mixup on {', '.join(map(str, wins.values()))} of "
        f"{len(few_rows.SETS)} sets with {', '.join(f'{count:,}' for count in wins)} rows. Minus its encoder without "
        f"generated positives: {'; '.join(parts)}."
    )


def pinda() -> str:
    table = noise_table()
    gained = clear(table, "pinda", "noise, same", SUBJECTS)
    return (
        f"{'Yes' if gained else 'No'}. PiNDA minus noise of the same strength on the same view, held-out subjects: "
        f"{intervals(table, 'pinda', 'noise, same', SUBJECTS)}; other batches: "
        f"{intervals(table, 'pinda', 'noise, same', ['gas_drift'])}. A weaker barrier, which lets it learn more, minus "
        f"the default: {intervals(table, 'learning', 'pinda', SUBJECTS)}."
    )


def views() -> str:
    table, parts, helps = labels_table(), [], []
    for percent, tie in PROBES.items():
        sets, texts = sets_of(few_label_views.SETS, percent, "%"), []
        for kind in KINDS:
            means = [statistics.fmean(differences(table, kind, "none", [name], "h")) for name in sets]
            every = differences(table, kind, "none", sets, "h")
            most = 2 * sum(gap > tie for gap in means) > len(means)
            helps += [f"{kind} at {percent} %"] if most and positive(every) else []
            texts.append(f"{kind} {gain_of(every)}")
        parts.append(f"at {percent} % {', '.join(texts)}")
    return f"{'Yes, ' + ', '.join(helps) if helps else 'No kind is'}. On h, minus no views: {'; '.join(parts)}."


def genes() -> str:
    table, parts = cells_table(), []
    for percent in PROBES:
        sets = sets_of(cell_views.SETS, percent, "%")
        against = [gain_of(differences(table, "diffaug", other, sets, "raw")) for other in ("none", "neighbor mix")]
        parts.append(f"at {percent} % {against[0]} against no views and {against[1]} against mixtures of neighbors")
    yes = all(
        min(differences(table, "diffaug", other, [name], "raw")) > PROBES[1]
        for other in ("none", "neighbor mix")
        for name in sets_of(cell_views.SETS, 1, "%")
    )
    return f"{'Yes, on all three sets' if yes else 'Not on all sets'}: {'; '.join(parts)}, 9 pairs each."


@dataclass(frozen=True)
class Question:
    """A question of the plan: its cells, its results file, its answer, and the page with its tables."""

    text: str
    cells: Sequence[Cell]
    path: Path
    answer: Callable[[], str]
    page: str = "decisive.md"


QUESTIONS = (
    Question(
        "Do MetAug's augmented features and its one loss for all pairs improve a contrast?",
        *(study_metaug.STUDY.cells(), study_metaug.STUDY.path, metaug, "metaug.md"),
    ),
    Question(
        "Do GenView's generated views, adaptive noise and quality weights each add to a framework?",
        *(study_genview.STUDY.cells(), study_genview.STUDY.path, genview, "genview.md"),
    ),
    Question(
        "Do they on images and DNA, with a generator that was trained as `generate` does by default?",
        *(generated_views.cells(), generated_views.PATH, genview_on_images),
    ),
    Question(
        "Do DiffAug's generated positives help where train rows are few?", *(few_rows.cells(), few_rows.PATH, diffaug)
    ),
    Question(
        "Does PiNDA's learned noise help where test rows come from other subjects or batches?",
        *(learned_noise.cells(), learned_noise.PATH, pinda),
    ),
    Question(
        "Are views good training data for a probe with few labels?",
        *(few_label_views.cells(), few_label_views.PATH, views),
    ),
    Question(
        "Are generated views of cells good training data for a probe on genes?",
        *(cell_views.cells(), cell_views.PATH, genes),
    ),
)


def answers() -> Lines:
    """A line for each question, all of whose cells are measured."""
    measured = [question for question in QUESTIONS if complete(question.cells, question.path)]
    return [f"- **{question.text}** {question.answer()} [Tables]({question.page})." for question in measured]


# ---- tables -----------------------------------------------------------------------------------------------------


def of_rows() -> Lines:
    """Few train rows."""
    table, lines = rows_table(), []
    compared = {
        f"diffaug - {other}, {count:,} rows": ("diffaug", other, sets_of(few_rows.SETS, count, "rows"))
        for other in ("phase A", *FIXED)
        for count in few_rows.ROWS
    }
    names = [name for count in few_rows.ROWS for name in sets_of(few_rows.SETS, count, "rows")]
    for metric, title in SCORES.items():
        lines += ["", f"### {title}", "", *by_set(table, metric, names, tuple(few_rows.ARMS))]
    gained = gains(table, compared, titles("linear", "knn", "kmeans_accuracy"), "difference")
    return section("DiffAug where train rows are few", gained, text=OF_ROWS) + lines


def of_genview() -> Lines:
    """GenView's ladder with a default generator."""
    table, sets = ladder_table(), list(generated_views.SETS)
    pairs = [*itertools.pairwise(generated_views.ARMS), ("framework", "+ quality")]
    compared = {f"{one} - {other}": (one, other, sets) for other, one in pairs}
    lines = gains(table, compared, titles("linear", "knn", "kmeans_accuracy", "linear_1pct"), "difference")
    for metric, title in SCORES.items():
        lines += ["", f"### {title}", "", *by_set(table, metric, sets, tuple(generated_views.ARMS))]
    return ["", f"## {LADDER}", "", OF_LADDER, "", *lines]


def of_noise() -> Lines:
    """Learned noise on held-out groups."""
    table, splits, lines = noise_table(), list(learned_noise.SPLITS), ["", f"## {NOISE}", "", OF_NOISE]
    pairs = [
        *(("pinda", row) for row in ("neighbors", "noise", "noise, both", "noise, same")),
        *(("learning", "pinda"), ("profile", "pinda"), ("profile", "noise, same"), ("noise", "neighbors")),
    ]
    for title, sets in {"held-out subjects": SUBJECTS, **{name: (name,) for name in splits}}.items():
        compared = {f"{one} - {other}": (one, other, sets) for one, other in pairs}
        lines += ["", f"### {title}", "", *gains(table, compared, titles(*learned_noise.METRICS), "difference")]
    for metric, title in SCORES.items():
        lines += ["", f"### {title}", "", *by_set(table, metric, splits, learned_noise.ROWS)]
    learned = {
        "features": "spread of sigma over features",
        "samples": "spread of sigma over samples",
        "strength": "strength that the search chose",
    }
    for key, title in learned.items():
        rows = ("noise", "pinda") if key == "strength" else ("pinda", "learning")
        lines += ["", f"### {title}", "", *by_set(table, key, splits, rows, bold=False)]
    return lines


def of_labels() -> Lines:
    """Views as training data."""
    table, lines = labels_table(), ["", f"## {LABELS}", "", OF_LABELS]
    metrics = {"h": "on h", "raw": "on raw rows"}
    for percent in PROBES:
        sets = sets_of(few_label_views.SETS, percent, "%")
        compared = {f"{kind} - none": (kind, "none", sets) for kind in KINDS}
        lines += ["", f"### {percent} % of the labels", "", *gains(table, compared, metrics, "difference")]
        for metric, title in metrics.items():
            lines += ["", f"Accuracy {title}:", "", *by_set(table, metric, sets, ("none", *KINDS))]
    return lines


def of_cells() -> Lines:
    """Views of cells as training data."""
    table, lines = cells_table(), ["", f"## {GENES}", "", OF_CELLS]
    metrics = {"raw": "on genes", "pca": "on principal axes", "h": "on h"}
    for percent in PROBES:
        sets = sets_of(cell_views.SETS, percent, "%")
        compared = {f"diffaug - {other}": ("diffaug", other, sets) for other in ("none", "neighbor mix")}
        lines += ["", f"### Genes, {percent} % of the labels", "", *gains(table, compared, metrics, "difference")]
        for metric, title in metrics.items():
            lines += ["", f"Accuracy {title}:", "", *by_set(table, metric, sets, ("none", "neighbor mix", "diffaug"))]
    return lines


def main() -> None:
    pages = {
        few_rows: of_rows,
        learned_noise: of_noise,
        few_label_views: of_labels,
        cell_views: of_cells,
        generated_views: of_genview,
    }
    scripts = [script for script in pages if complete(script.cells(), script.PATH)]
    measured = [pages[script]() for script in scripts]
    hardware = measured_with(*(script.PATH for script in scripts))
    lines = [
        "# Measured: the decisive experiments",
        "",
        "Written by `benchmarks/tables/decisive.py`; questions and what counts as a yes: `benchmarks/quality/PLAN.md`.",
        f"The answers are in [when_views_help.md](when_views_help.md#answers). {hardware}.",
    ]
    write("results/decisive.md", [*lines, *itertools.chain(*measured)])


if __name__ == "__main__":
    command(__doc__, main)
