"""`viewsmith compare` on the shared sets: three seeds, the same epochs for all methods.

Of each set, 2,000 train and 1,000 test rows, drawn with seed 0, or all if there are fewer; the split of the file stays,
so the spread is that of training seeds. A small budget, for the table that the command prints, not for claims about
methods. Resumed by set and, within a set, by training. --table writes docs/results/compare.md from the results.

    OMP_NUM_THREADS=1 python -m benchmarks.quality.compare_sets [satimage ...] [--epochs 50] [--folder DIR] [--table]
"""

from __future__ import annotations

import argparse
import json
import resource
import subprocess
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from benchmarks.common.data import data_folder, draw_rows
from benchmarks.common.runner import RESULTS, ROOT, Cell, rows, run
from viewsmith.evaluation.advice import MAIN, PURPOSE

METHODS = ("contrastive", "pinda")
VECTORS = ("sc_pbmc68k_reduced", "satimage", "letter", "optdigits", "texture", "wisdm_har", "gas_drift")
WIDE = ("sc_10x_pbmc", "sc_worm_neuron", "sc_human_kidney", "sc_citeseq_cbmc")
TEXT = ("text_r8_tfidf2000", "text_20news_tfidf2000")
DNA = (
    "dna_human_core_promoter",
    "dna_ienhancer2l",
    "dna_4mc_athaliana",
    "dna_4mc_celegans",
    "dna_arabidopsis_promoter",
)
IMAGES = ("mnist", "fashion_mnist", "cifar10_small")
SETS = (*VECTORS, *WIDE, *TEXT, *DNA, *IMAGES)
FILE = RESULTS / "compare_sets.jsonl"


def compared(name: str, epochs: int, folder: Path) -> dict[str, Any]:
    """The leaderboard of a set, and CPU seconds of the command, which a resumed one does not know."""
    data, out, rng = folder / f"{name}.npz", folder / name, np.random.default_rng(0)
    with np.load(data_folder() / f"{name}.npz") as found:
        parts = {}
        for part, limit in (("train", 2000), ("test", 1000)):
            parts[f"X_{part}"], parts[f"y_{part}"] = draw_rows(found[f"X_{part}"], found[f"y_{part}"], limit, rng)
    np.savez(data, **parts)
    resumed = out.exists()
    command = ["compare", data, "--methods", ",".join(METHODS), "--set", f"epochs={epochs}", "--threads", 1]
    before = resource.getrusage(resource.RUSAGE_CHILDREN)
    program = [sys.executable, "-m", "viewsmith", *map(str, command), "--seeds", "3", "--out", str(out)]
    subprocess.run(program, check=True, stdout=subprocess.DEVNULL)
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    board = json.loads((out / "leaderboard.json").read_text(encoding="utf-8"))
    means = {row: {p: round(s["mean"], 4) for p, s in of.items()} for row, of in board["rows"].items()}
    level = {protocol: board["level"][protocol] for protocol in MAIN if protocol in board["level"]}
    cpu = used.ru_utime + used.ru_stime - before.ru_utime - before.ru_stime
    about = {
        "epochs": epochs,
        "sizes": board["sizes"],
        "modality": board["modality"],
        "cpu": None if resumed else round(cpu, 1),
    }
    return about | {"means": means, "level": level, "level_everywhere": board["level_everywhere"]}


def write_table() -> None:
    """Write docs/results/compare.md."""
    protocols = [name for name in MAIN if name in PURPOSE and not name.startswith(("r2", "knn_r2"))]
    found = [row for row in rows(FILE) if "error" not in row]
    processors = " or ".join(dict.fromkeys(row["processor"].split("(R)")[0] for row in found))
    command = f"compare --methods {','.join(METHODS)} --seeds 3"
    lines = [
        "# The command compare on many sets",
        "",
        f"Written by `benchmarks/quality/compare_sets.py --table`: `{command}`",
        f"with {found[0]['epochs']} epochs for both methods, a small budget, on up to 2,000 train and 1,000 test rows",
        f"of each set (one thread of an {processors}). The spread is that of seeds. Each cell is the",
        "cheapest row that is level with the best one, with its mean; in parentheses the best one, if it is another.",
        f"CPU seconds are of the whole command (of one resumed: none). {len(found)} of {len(SETS)} sets are done;",
        f"not: {', '.join(name for name in SETS if name not in {row['dataset'] for row in found}) or 'none'}.",
        "",
        f"| set | rows | {' | '.join(PURPOSE[each] for each in protocols)} | level everywhere | CPU seconds |",
        f"|---|---|{'---|' * len(protocols)}---|---|",
    ]
    for row in found:
        cells = []
        for name in protocols:
            means = {each: scores[name] for each, scores in row["means"].items()}
            cheapest, best = row["level"][name][0], max(row["level"][name], key=lambda each: means[each])
            more = "" if best == cheapest else f" ({best} {means[best]:.3f})"
            cells.append(f"{cheapest} {means[cheapest]:.3f}{more}")
        size, first = row["sizes"], next(iter(row["level_everywhere"]), "none")
        sizes, cpu = f"{size['train']:,} + {size['test']:,}", "" if row["cpu"] is None else f" {row['cpu']:.0f}"
        lines.append(f"| {row['dataset']} | {sizes} | {' | '.join(cells)} | {first} |{cpu} |")
    (ROOT / "docs" / "results" / "compare.md").write_text("\n".join(lines) + "\n", encoding="utf-8")


def main() -> None:
    options = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    options.add_argument("sets", nargs="*", default=SETS)
    options.add_argument("--epochs", type=int, default=50)
    options.add_argument("--folder", type=Path, default=Path(tempfile.gettempdir()) / "compare_sets")
    options.add_argument("--table", action="store_true", help="write the page, train nothing")
    given = options.parse_args()
    if given.table:
        return write_table()
    given.folder.mkdir(parents=True, exist_ok=True)
    cells = [
        Cell(name, "+".join(METHODS), 0, partial(compared, name, given.epochs, given.folder)) for name in given.sets
    ]
    run(cells, FILE)


if __name__ == "__main__":
    main()
