"""What `viewsmith discover --length sounds` does: the kinds of sounds that recur in recordings, such as syllables; and
`locate` after it.

Sounds are those between silences (`viewsmith.data.recordings`), in the representation of the contrast in closed form.
Their kinds are clusters of k-means on rows of length one, as many as have the largest mean silhouette (Rousseeuw 1987).
"""

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import torch

from viewsmith.core import __version__
from viewsmith.core.errors import InputError, check, pluralize
from viewsmith.core.files import atomic_path, target_of, write_text_atomic
from viewsmith.core.tensors import load_tensors, save_tensors
from viewsmith.data.any_size import Samples
from viewsmith.data.dataset import Windows
from viewsmith.data.write import spreadsheet_frame, write_annotations, write_npz
from viewsmith.methods.linear_contrast.estimator import LinearContrast
from viewsmith.methods.loading import load
from viewsmith.modalities.images.channels import to_pixels
from viewsmith.reports import Figure, Picture, draw_map, render, two_dimensional_map
from viewsmith.training.run import RunFolder

FEWEST, MOST_KINDS = 12, 30  # sounds, kinds
JUDGED = 4000  # sounds at most by which the number of kinds is chosen
OPTIONS = {"kinds", "random_state", "modality", "max_parts"}
MODEL, CENTERS = "model", "kinds.safetensors"  # in the folder of a discovery
SHOWN, HEIGHT = 8, 96  # spectrograms of a kind, and their pixels


def kinds_of(h: np.ndarray, kinds: int | None = None, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """The kind of each row (n, d), from 0 by their numbers, and its silhouette; as many kinds as are given, or as have
    the largest mean silhouette."""
    from sklearn.cluster import KMeans
    from sklearn.metrics import silhouette_samples, silhouette_score

    rows = _normalized(h)

    def clusters(x: np.ndarray, k: int) -> Any:
        return KMeans(k, n_init=5, random_state=seed).fit(x)

    if kinds is None:
        some = rows[np.sort(np.random.default_rng(seed).permutation(len(rows))[:JUDGED])]
        tried = range(2, min(MOST_KINDS, len(some) // 3) + 1)
        kinds = max(tried, key=lambda k: float(silhouette_score(some, clusters(some, k).labels_)))
    labels = clusters(rows, kinds).labels_
    order = np.argsort(-np.bincount(labels, minlength=kinds), kind="stable")
    silhouettes = np.ones(len(rows)) if kinds == 1 else silhouette_samples(rows, labels)
    return np.argsort(order)[labels], silhouettes


def discover_sounds(out: Path, found: Samples, options: dict[str, Any], title: str) -> str:
    """Write ``parts.csv`` (a row for each sound), annotations, ``crops.npz`` and ``report.html``; return what was
    found, in plain words."""
    x, _, _, windows, _ = found
    assert isinstance(windows, Windows) and windows.rate is not None
    if others := options.keys() - OPTIONS:
        raise InputError(f"{min(others)} is for events in windows, and the parts are whole sounds here: leave it out")
    if len(x) < FEWEST:
        raise InputError(f"{pluralize(len(x), 'sound')}, expected at least {FEWEST}: kinds are seen across sounds")
    seed, kinds = int(options.get("random_state", 0)), options.get("kinds")
    check(kinds is None or 1 <= kinds <= len(x), "kinds", kinds, f"1 to {len(x)}, the number of sounds")
    model = LinearContrast(
        modality="series", features="log-mel", features_options={"sampling_rate": windows.rate}, random_state=seed
    ).fit(x)
    h = model.transform(x)
    kind, silhouettes = kinds_of(h, kinds, seed)
    table = _table(found, kind, silhouettes)
    write_text_atomic(out / "parts.csv", _text(table))
    model.save(out / MODEL)
    centers = np.stack([_normalized(h)[kind == each].mean(0) for each in range(kind.max() + 1)])
    save_tensors(out / CENTERS, {"centers": torch.from_numpy(centers)})
    signal = {"rate": windows.rate, "points": x.shape[2], "sounds": True}
    RunFolder(out).write_config({"method": "discovery", "modality": "series", "read": {"signal": signal}})
    texts = [f"kind {each}" for each in kind]
    of, first, last = (table[name].to_numpy() for name in ("recording", "first", "last"))
    write_annotations(out / "annotations", of, first, last, texts, windows.rate)
    _write_sounds(out / "crops.npz", x, kind)
    counts = np.bincount(kind)
    recordings = pluralize(len(np.unique(windows.recordings)), "recording")
    sentence = (
        f"{pluralize(len(x), 'sound')} in {recordings}, of {pluralize(len(counts), 'kind')} "
        f"({', '.join(map(str, counts))}); mean silhouette {silhouettes.mean():.2f}"
    )
    xy, index = two_dimensional_map(h, seed=seed)
    figures = [
        Figure(
            f"Kind {each} ({count})",
            "The sounds that are most like their kind: frequency upward, time to the right.",
            [Picture(f"Spectrograms of kind {each}", _spectrograms(x, np.flatnonzero(kind == each), silhouettes))],
        )
        for each, count in enumerate(counts)
    ]
    page = render(
        "figures.html.j2",
        title=f"Sounds in {title}",
        verdict=f"{sentence[:1].upper()}{sentence[1:]}.",
        notes=[
            "Sounds lie between silences: their level over the background of each recording is above Otsu's threshold. "
            "A silhouette is near 1 where a sound is much nearer to its kind than to the next one, and 0 between two."
        ],
        figures=[draw_map("All sounds by kind", xy, kind[index]), *figures],
        version=__version__,
    )
    write_text_atomic(out / "report.html", page)
    return sentence


def locate_sounds(out: Path, run: Path, given: Samples, *, crops: bool = False) -> None:
    """Write the kinds of the sounds of other recordings, those of the nearest centers, as a table, or with `crops`
    sounds and kinds; a score is 1 less the quotient of the distances to the nearest center and the next."""
    h = _normalized(load(run / MODEL).transform(given.rows))
    distances = np.linalg.norm(h[:, None] - load_tensors(run / CENTERS)["centers"].numpy(), axis=2)
    kind, near = distances.argmin(1), np.sort(distances, 1)
    if crops:
        _write_sounds(target_of(out), given.rows, kind)
        return
    score = np.ones(len(h)) if near.shape[1] == 1 else 1 - near[:, 0] / np.maximum(near[:, 1], 1e-12)
    write_text_atomic(target_of(out), _text(_table(given, kind, score)))


def _normalized(h: np.ndarray) -> np.ndarray:
    return h / np.maximum(np.linalg.norm(h, axis=1, keepdims=True), 1e-12)


def _table(found: Samples, kind: np.ndarray, score: np.ndarray) -> pd.DataFrame:
    """A row for each sound: its kind and its place."""
    assert isinstance(found.windows, Windows)
    place = found.windows.located(np.arange(len(kind)), np.array(0), np.array(found.rows.shape[2]))
    return pd.DataFrame({"file": found.names, "kind": kind, "score": score} | place)


def _text(table: pd.DataFrame) -> str:
    return str(spreadsheet_frame(table).to_csv(index=False, float_format="%.6g"))


def _write_sounds(path: Path, x: Any, kind: np.ndarray) -> None:
    with atomic_path(path) as temporary, temporary.open("wb") as file:
        write_npz(file, {"X": np.asarray(x[:]), "y": kind})


def _spectrograms(x: Any, rows: np.ndarray, silhouettes: np.ndarray) -> np.ndarray:
    """Spectrograms of the rows with the largest silhouettes beside each other, dark where loud, uint8 (H, W, 3)."""
    from scipy.signal import stft

    tiles = []
    for i in rows[np.argsort(-silhouettes[rows], kind="stable")][:SHOWN].tolist():
        values = np.asarray(x[i : i + 1])[0, 0]
        values = values[~np.isnan(values)]
        points = min(256, len(values))
        power = np.abs(stft(values, nperseg=points, noverlap=points * 3 // 4)[2]) ** 2
        level = 10 * np.log10(power + 1e-12 * max(float(power.max()), 1e-30))
        shade = np.clip((level.max() - level) / 50, 0, 1)[::-1]
        across = np.arange(HEIGHT) * len(shade) // HEIGHT
        tiles += [shade[across], np.ones((HEIGHT, 4))]
    gray = to_pixels(np.concatenate(tiles, 1))
    return np.repeat(np.repeat(gray, 2, 1)[..., None], 3, 2)
