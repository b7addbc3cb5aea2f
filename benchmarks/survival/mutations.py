"""Mutations: one line of the code is made wrong, and the tests that stand for it have to fail.

    OMP_NUM_THREADS=1 python -m benchmarks.survival.mutations [name ...]

Each one is made in a copy of the package, whose tests run from this checkout. A mutation that no test sees, or that the
code no longer has, is listed, and the command ends with 1. About ten seconds for each on a free core.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from benchmarks.common.runner import ROOT


@dataclass(frozen=True)
class Mutation:
    """A text of a file of `src/viewsmith`, what it is replaced by, and the arguments of pytest that see it."""

    file: str
    before: str
    after: str
    tests: str


MUTATIONS = {
    # Survivors of an audit of the tests, each with a test since then.
    "q of places": Mutation(
        "methods/crl_tac/building.py",
        'found = found[found["q"] <= MAX_Q]',
        'found = found[found["q"] <= 1]',
        "tests/methods/test_methods_crl_tac_discovery.py tests/methods/test_methods_crl_tac_start.py",
    ),
    "size of places": Mutation(
        "methods/crl_tac/building.py",
        "int(np.median(sizes.max(axis=1)))",
        "int(np.median(sizes.min(axis=1)))",
        "tests/methods/test_methods_crl_tac_discovery.py tests/methods/test_methods_crl_tac_start.py",
    ),
    "groups of the rows that are drawn": Mutation(
        "evaluation/symmetries.py",
        "np.unique(np.asarray(groups)[rows], return_inverse=True)",
        "np.unique(np.asarray(groups)[: len(rows)], return_inverse=True)",
        "tests/evaluation/test_evaluation_symmetries.py",
    ),
    "ties of lower scores": Mutation(
        "evaluation/differences.py",
        "float(smaller) if protocol in LOWER_IS_BETTER else 1.0",
        "1.0",
        "tests/evaluation/test_evaluation_differences.py tests/evaluation/test_evaluation_compare.py",
    ),
    "rows of located parts": Mutation(
        "workflows/over_files.py",
        'kept.iloc[made["sample"]].reset_index(drop=True)',
        "kept.reset_index(drop=True)",
        "tests/examples/test_engines.py",
    ),
    "source of a published model": Mutation(
        "workflows/export.py",
        'config.get("data", {}).get("source", "")',
        '""',
        "tests/data/test_data_hub.py tests/cli/test_cli_push.py",
    ),
    "steps after a checkpoint": Mutation(
        "training/callbacks.py",
        "purge_step=tracker._first + 1",
        "purge_step=tracker._first",
        "tests/training/test_training_tracking.py -k tensorboard",
    ),
    "leaks of the negative": Mutation(
        "data/labels.py",
        "abs(numbers.corr(target)) > SAME",
        "numbers.corr(target) > SAME",
        "tests/data/test_data_labels.py",
    ),
    "gaps of a quantity": Mutation(
        "data/labels.py", "+ 1 >= 2 * distinct", "+ 1 >= distinct", "tests/data/test_data_labels.py"
    ),
    "trial on held rows": Mutation(
        "estimator/resolve.py",
        "train_briefly(estimator, data, order[cut:],",
        "train_briefly(estimator, data, order[:],",
        "tests/estimator/test_estimators_strength.py",
    ),
    "longest queue": Mutation(
        "frameworks/base.py",
        "min(cls.largest_queue, max(data.batch_size, data.n_rows // 2))",
        "max(data.batch_size, data.n_rows // 2)",
        "tests/frameworks/test_frameworks_published.py tests/frameworks/test_frameworks_moco.py "
        "tests/frameworks/test_frameworks_simclr.py",
    ),
    "outputs of the published dino": Mutation(
        "frameworks/dino.py",
        "65_536 if context.published else 1024",
        "1024",
        "tests/frameworks/test_frameworks_published.py",
    ),
    # Safety of files.
    "external parts of an .h5ad file": Mutation(
        "data/readers/h5ad.py", "        check_own(whole, path)\n", "", "tests/data/test_data_h5ad.py -k other_files"
    ),
    "links of obsm": Mutation(
        "data/readers/h5ad.py", "h5py.HardLink | None)", "object)", "tests/data/test_data_h5ad.py -k link"
    ),
    "size of what is unpacked": Mutation(
        "data/reading.py",
        "self._count += len(read)",
        "pass",
        "tests/data/test_data_tables.py tests/data/test_data_dna.py",
    ),
    "links of a published run": Mutation(
        "workflows/export.py",
        "if file.is_symlink()]",
        "if False]",
        "tests/data/test_data_hub.py tests/cli/test_cli_push.py",
    ),
    "files of a run": Mutation(
        "data/places.py",
        "(in_checkpoint or given.name in RUN_FILES)",
        "in_checkpoint",
        "tests/cli/test_cli_use.py -k a_file_of_a_run_is_not_replaced_by_an_output",
    ),
    "locks that are links": Mutation(
        "core/files.py",
        "    check_no_link(folder / name)  # filelock",
        "    # filelock",
        "tests/core/test_core_files.py",
    ),
    "formulas in tables": Mutation(
        "core/files.py",
        'value[0] not in "=+-@\\t\\r"',
        'value[0] not in "=+-"',
        "tests/core/test_core_files.py tests/data/test_data_write.py",
    ),
    "escapes in a terminal": Mutation(
        "core/errors.py", 'c.isprintable() or c in "\\n\\t"', "True", "tests/core tests/cli/test_cli_refusals.py"
    ),
    "memory of a damaged run": Mutation(
        "core/tensors.py", "if self.made > self.limit:", "if False:", "tests/core/test_core_allocation.py"
    ),
    # What is said.
    "rows off the scale": Mutation(
        "estimator/plan.py",
        'if not found["size"] <= max(FAR * fitted["size"], fitted["largest"]):',
        "if False:",
        "tests/estimator/test_estimators_reach.py",
    ),
    "masks beside images": Mutation(
        "data/readers/folders.py",
        "if len(found) == 2 and len(masks) == 1:",
        "if False:",
        "tests/data/test_data_folders.py -k layouts",
    ),
    "values of flags": Mutation(
        "cli/early.py", "if expected and not holds(value):", "if False:", "tests/cli/test_cli_early.py -k command_line"
    ),
    "text in tables of runs": Mutation(
        "data/sources.py", 'column["role"] == "text"', "False", "tests/data/test_data_of_run.py"
    ),
    "scores of few labels": Mutation(
        "evaluation/leaderboard.py",
        "labeled_rows.get(name, FEWEST_LABELS) >= FEWEST_LABELS",
        "True",
        "tests/evaluation/test_evaluation_advice.py",
    ),
    "views that diagnostics measure": Mutation(
        "methods/diffaug/training.py",
        "if self.replacement:\n            return super().view_of_training",
        "if True:\n            return super().view_of_training",
        "tests/methods/test_methods_diffaug.py -k diagnostics_are",
    ),
    "numbers of images in COCO": Mutation(
        "workflows/discover.py", '{"id": i + 1, "file_name"', '{"id": i, "file_name"', "tests/cli/test_cli_discover.py"
    ),
    "sites of a motif": Mutation(
        "methods/discovery/motifs.py",
        "nsites= {max(1, sites)}",
        "nsites= 20",
        "tests/methods/test_methods_discovery_motifs.py -k text_formats",
    ),
    # Discovery in sequences.
    "words that are filled up": Mutation(
        "methods/discovery/motif_models.py",
        "F.pad(log_p, (0, -log_p.shape[1] % every.shape[1]))",
        "F.pad(log_p, (-log_p.shape[1] % every.shape[1], 0))",
        "tests/methods/test_methods_discovery_motifs.py -k words",
    ),
    "own sites left out": Mutation(
        "methods/discovery/motif_search.py",
        "(letters.sum(0) - letters).reshape(n, -1, windows.size)",
        "letters.sum(0).expand(n, -1).reshape(n, -1, windows.size)",
        "tests/methods/test_methods_discovery_motifs.py -k loops",
    ),
    "ranks of equal surrogates": Mutation(
        "methods/discovery/acceptance.py",
        "(scores[1:] == scores[0]).sum(0) / 2",
        "(scores[1:] == scores[0]).sum(0)",
        "tests/methods/test_methods_discovery_acceptance.py",
    ),
    "candidates that were tried": Mutation(
        "methods/discovery/acceptance.py",
        "self.p * tried <= ALPHA",
        "self.p <= ALPHA",
        "tests/methods/test_methods_discovery_acceptance.py",
    ),
    "log odds of images": Mutation(
        "methods/discovery/acceptance.py",
        "(gain - LEAST) / np.sqrt(variance)",
        "gain / np.sqrt(variance)",
        "tests/methods/test_methods_discovery_acceptance.py",
    ),
    "few images are never sure": Mutation(
        "methods/discovery/acceptance.py",
        "np.append(each, (0, 1))",
        "np.append(each, (0.5, 0.5))",
        "tests/methods/test_methods_discovery_acceptance.py",
    ),
    "equal shares by half": Mutation(
        "methods/discovery/image_parts.py",
        'for side in ("left", "right")]',
        'for side in ("left", "left")]',
        "tests/methods/test_methods_discovery_windows.py tests/methods/test_methods_discovery_kinds.py",
    ),
    "q over all samples": Mutation(
        "methods/discovery/contrast.py",
        "np.minimum.accumulate(samples * p[order]",
        "np.minimum.accumulate(len(p) * p[order]",
        "tests/methods/test_methods_discovery_images.py -k q_values",
    ),
    # The closed form.
    "scatter of views": Mutation(
        "methods/linear_contrast/training.py",
        "within = second - views.shape[1] * (mean.T @ mean)",
        "within = second - mean.T @ mean",
        "tests/methods/test_methods_linear_contrast.py",
    ),
    "degrees of freedom of views": Mutation(
        "methods/linear_contrast/training.py",
        "self.within / (self.views - self.samples)",
        "self.within / self.views",
        "tests/methods/test_methods_linear_contrast.py",
    ),
    "tiny scatter": Mutation(
        "methods/linear_contrast/training.py",
        "if within.diagonal().sum() < CANCELS * second.diagonal().sum():",
        "if False:",
        "tests/methods/test_methods_linear_contrast.py",
    ),
    "unit of a feature that varies in views alone": Mutation(
        "networks/projected.py",
        ".square().mean(0).sqrt() / NOISE)",
        ".square().mean(0).sqrt() * 0)",
        "tests/methods/test_methods_linear_contrast.py",
    ),
    "size of images for patches": Mutation(
        "modalities/images/features.py",
        "default=math.inf) else (longest,)",
        "default=math.inf) else (longest // 2,)",
        "tests/modalities/test_modalities_images_features.py",
    ),
    "samples that are held out": Mutation(
        "methods/linear_contrast/training.py",
        "enumerate(self.folds) if number != fold)",
        "enumerate(self.folds))",
        "tests/methods/test_methods_linear_contrast.py",
    ),
    "sums over processes": Mutation(
        "methods/linear_contrast/training.py",
        "return sums.over_processes()",
        "return sums",
        "tests/methods/test_methods_linear_contrast.py -k processes",
    ),
    "weights of the critic": Mutation(
        "losses/gaussian_contrast.py",
        "(signal / (1 + 2 * signal))",
        "(signal / (1 + signal))",
        "tests/losses/test_losses_gaussian_contrast.py tests/methods/test_methods_linear_contrast.py",
    ),
    "offset of an exported map": Mutation(
        "networks/projected.py",
        "offset = -self.center @ weights",
        "offset = self.center @ weights",
        "tests/methods/test_methods_linear_contrast.py tests/workflows/test_workflows_export.py",
    ),
    # Recordings and scenes.
    "last window of a recording": Mutation(
        "data/recordings.py",
        "length - points + 1), step)",
        "length - points), step)",
        "tests/data/test_data_recordings.py",
    ),
    "middle of a longer recording": Mutation(
        "data/recordings.py",
        "np.maximum(0, (lengths - points) // 2)",
        "np.zeros_like(lengths)",
        "tests/data/test_data_recordings.py",
    ),
    "gaps in scaling": Mutation(
        "modalities/series/networks.py",
        "_of_known(values) if bool(values.isnan().any()) else column_moments([values])",
        "column_moments([values])",
        "tests/modalities/test_modalities_series_gaps.py",
    ),
    "gaps in some channels": Mutation(
        "modalities/series/networks.py",
        "~unknown.all(1)",
        "~unknown.any(1)",
        "tests/modalities/test_modalities_series_gaps.py",
    ),
    "last known point": Mutation(
        "modalities/series/networks.py",
        "(known * places).amax(1, keepdim=True)",
        "places[-1:].expand(len(x), 1)",
        "tests/modalities/test_modalities_series_gaps.py",
    ),
    "tiles at the edge": Mutation(
        "data/tiles.py",
        "[*range(0, size - side, step), size - side]",
        "[*range(0, size - side + 1, step)]",
        "tests/data/test_data_tiles.py",
    ),
    "tiles without data": Mutation(
        "data/tiles.py", ".any(axis=1) & ~holes", ".any(axis=1)", "tests/data/test_data_tiles.py"
    ),
    "objects at the edge": Mutation(
        "data/tiles.py",
        "np.clip(centers - side // 2, 0, shapes - side)",
        "centers - side // 2",
        "tests/data/test_data_objects.py",
    ),
    "numbers of objects": Mutation(
        "data/tiles.py",
        "enumerate(find_objects(whole), 1)",
        "enumerate(find_objects(whole))",
        "tests/data/test_data_objects.py",
    ),
    "a first row that is data": Mutation(
        "data/headers.py",
        "return ordered and not any(",
        "return ordered or not any(",
        "tests/data/test_data_text_tables.py",
    ),
    "ends of annotations": Mutation(
        "data/recordings.py", "or second < end):", "or second >= 0):", "tests/data/test_data_recordings.py"
    ),
    "range of a dark channel": Mutation(
        "modalities/images/channels.py",
        "np.where(high > low, high, most)",
        "high",
        "tests/data/test_data_instruments.py tests/data/test_data_microscopy.py "
        "tests/modalities/test_modalities_images_pixels.py",
    ),
    "radiographs whose largest number is black": Mutation(
        "data/readers/instruments.py",
        "return (white - x).astype(stored) if inverted else x",
        "return x",
        "tests/data/test_data_instruments.py",
    ),
    # Parts, options and runs.
    "two values of one option": Mutation(
        "estimator/options.py",
        "if name in found and found[name] is not value and repr(found[name]) != repr(value):",
        "if False:",
        "tests/estimator/test_estimators_grouped.py",
    ),
    "options that one modality takes": Mutation(
        "estimator/options.py",
        "if faults and len(faults) == len(takers):",
        "if faults:",
        "tests/cli/test_cli_declared.py",
    ),
    "rows of a resumed training": Mutation(
        "training/engine.py",
        'if record["rows"] != len(self.x):',
        "if False:",
        "tests/training/test_training_checkpoint.py tests/training/test_training_continued.py",
    ),
    "random numbers of a resumed training": Mutation(
        "training/engine.py",
        'torch.set_rng_state(tensors["random/cpu"])',
        "pass",
        "tests/training/test_training_stop.py",
    ),
    "rows of a view cache": Mutation(
        "data/view_cache.py",
        'if complete and torch.equal(block["index"], index):',
        "if complete:",
        "tests/data/test_data_view_cache.py",
    ),
    # q-values and motifs.
    "best of nothing": Mutation(
        "methods/discovery/contrast.py",
        "p = (1 + null.size - ",
        "p = (null.size - ",
        "tests/methods/test_methods_discovery_images.py -k q_values",
    ),
    "first part of a sample": Mutation(
        "methods/discovery/contrast.py",
        "q[first] = np.minimum(q[first], q_values(scores[first], null[:, :1], samples))",
        "pass",
        "tests/methods/test_methods_discovery_images.py tests/methods/test_methods_discovery_events.py",
    ),
    "outliers of their own kind": Mutation(
        "methods/discovery/contrast.py",
        "far = _excess(kind, d) - _excess(rest, d)",
        "far = _excess(kind, d)",
        "tests/methods/test_methods_discovery_windows.py tests/methods/test_methods_discovery_images.py",
    ),
    "background of many letters": Mutation(
        "methods/discovery/motif_models.py",
        "if c > FEW_LETTERS:",
        "if False:",
        "tests/methods/test_methods_discovery_sequences.py tests/methods/test_methods_discovery_motifs.py",
    ),
    "letters of a pattern": Mutation(
        "methods/discovery/motif_models.py",
        "if p[i] >= LISTED)",
        "if p[i] > 0)",
        "tests/methods/test_methods_discovery_motifs.py tests/methods/test_methods_discovery_sequences.py",
    ),
    # Equations.
    "distances of positives": Mutation(
        "losses/nt_xent.py",
        "(anchors - candidates[positive]).square().sum(1)) / temperature",
        "(anchors - candidates[positive]).square().sum(1))",
        "tests/losses",
    ),
}


def caught(mutation: Mutation) -> bool | None:
    """Whether a test fails; None if the code does not have the text exactly once."""
    with tempfile.TemporaryDirectory() as folder:
        source = Path(folder, "src")
        shutil.copytree(ROOT / "src", source, ignore=shutil.ignore_patterns("__pycache__"))
        file = source / "viewsmith" / mutation.file
        text = file.read_text(encoding="utf-8")
        if text.count(mutation.before) != 1:
            return None
        file.write_text(text.replace(mutation.before, mutation.after), encoding="utf-8")
        command = [sys.executable, "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "-m", "not gpu"]
        environment = os.environ | {"PYTHONPATH": f"{source}{os.pathsep}{ROOT}"}
        made = subprocess.run(
            [*command, *mutation.tests.split()], cwd=ROOT, env=environment, capture_output=True, check=False
        )
    if made.returncode not in (0, 1):  # no test was chosen, or pytest itself failed
        raise SystemExit(made.stdout.decode()[-2000:])
    return made.returncode == 1


def main(arguments: Sequence[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="name", help="; ".join(MUTATIONS))
    given = parser.parse_args(arguments)
    if unknown := set(given.names) - set(MUTATIONS):
        parser.error(f"no such mutation: {', '.join(sorted(unknown))}")
    left = 0
    for name in given.names or MUTATIONS:
        found = caught(MUTATIONS[name])
        left += not found
        said = {True: "caught", False: "NOT SEEN", None: "not in the code"}[found]
        print(f"{name}: {said}", flush=True)
    print(f"{len(given.names or MUTATIONS) - left} of {len(given.names or MUTATIONS)} caught")
    raise SystemExit(bool(left))


if __name__ == "__main__":
    main()
