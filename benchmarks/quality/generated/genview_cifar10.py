"""Reproduce the CIFAR-10 row of GenView's table 5 with published weights, in one command, on a machine with a GPU.

First, Stable unCLIP generates views of the 50,000 training images (20 steps, guidance 10, adaptive noise). Then MoCo v2
is trained on them with ResNet-18 as in the paper's appendix A (`--preset paper`: small stem, 500 epochs, batches of
512, pairs weighted by their quality in CLIP's ConvNeXt from the first step). Then `viewsmith evaluate` scores the
representation on the 10,000 test images. The paper's linear classifier (93.00) is trained with SGD for 100 epochs;
viewsmith's is a logistic regression on the same frozen representation. The same command resumes an interrupted job. On
several machines, fill the view cache first: `viewsmith generate ... --shard i/n`.

This script has not been run with the published weights. `--smoke` tests all parts on a CPU in seconds, with tiny random
weights, a few random images and one epoch.

    python -m benchmarks.quality.generated.genview_cifar10 --data CIFAR10.npz --out FOLDER [--weights NAME or FOLDER]
    python -m benchmarks.quality.generated.genview_cifar10 --smoke --out FOLDER
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path

import numpy as np

from benchmarks.common.runner import ROOT
from viewsmith.cli import main as viewsmith
from viewsmith.training.run import RunFolder

PUBLISHED = "stabilityai/stable-diffusion-2-1-unclip"
# Smaller settings for the smoke test on a CPU.
SMALL = ("epochs=1", "batch_size=16", "queue_size=64")


def run(*arguments: object) -> None:
    """Run a command of viewsmith; exit if it fails."""
    try:
        viewsmith([str(argument) for argument in arguments])
    except SystemExit as end:
        if end.code:
            raise


def reproduce(
    data: Path,
    weights: str,
    out: Path,
    *,
    features: str | None = None,
    seed: int = 0,
    device: str = "auto",
    smoke: bool = False,
) -> dict:
    """Make the view cache, the run and the evaluation in the folder `out`; return the evaluation."""
    cache, trained = out / "views", out / "run"
    few = ("--steps", 2) if smoke else ()
    run("generate", data, "--generator", f"unclip:{weights}", "--out", cache, "--seed", seed, "--device", device, *few)
    command = ["fit", data, "--method", "genview", "--preset", "paper", "--view-cache", cache, "--out", trained]
    command += () if features is None else ("--features", features)
    for assignment in SMALL if smoke else ():
        command += ["--set", assignment]
    run(*command, "--seed", seed, "--device", device, "--resume")
    run("evaluate", trained, data, "--protocols", "linear,knn")
    found: dict = json.loads(RunFolder(trained).evaluation.read_text(encoding="utf-8"))
    return found


def tiny(out: Path) -> tuple[Path, str, str]:
    """Save random images, and the pipeline and CLIP with random weights; return data, weights and features."""
    sys.path[:0] = [str(ROOT / "tests" / "methods"), str(ROOT / "tests")]
    from unclip_toys import tiny_pipeline

    from clip_toys import save_clip

    save_clip(out / "clip")
    rng, weights, data = np.random.default_rng(0), out / "weights", out / "data.npz"
    weights.mkdir(parents=True, exist_ok=True)
    if not (weights / "model_index.json").exists():
        tiny_pipeline(weights).save_pretrained(weights)
    splits = {"train": 24, "test": 12}
    images = {f"X_{split}": rng.integers(0, 256, (n, 32, 32, 3), dtype=np.uint8) for split, n in splits.items()}
    np.savez(data, **images, **{f"y_{split}": np.arange(n) % 2 for split, n in splits.items()})
    return data, str(weights), f"clip:{out / 'clip'}"


def main(arguments: list[str] | None = None) -> None:
    parser = argparse.ArgumentParser(description="The CIFAR-10 row of GenView's table 5.")
    parser.add_argument("--data", type=Path, help=".npz with X_train, X_test, y_train and y_test, uint8 images")
    parser.add_argument("--weights", default=PUBLISHED, help="folder in the format of diffusers, or a name on the hub")
    parser.add_argument(
        "--features", help="network for quality, clip:FOLDER or clip:OWNER/NAME; default: that of the preset"
    )
    parser.add_argument("--out", type=Path, required=True, help="folder for view cache and run")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--device", default="auto")
    parser.add_argument("--smoke", action="store_true", help="tiny random weights and images")
    given = parser.parse_args(arguments)
    if not given.smoke and given.data is None:
        parser.error("--data is missing: the images of CIFAR-10 as an .npz file (or --smoke)")
    data, weights, features = tiny(given.out) if given.smoke else (given.data, given.weights, given.features)
    reproduce(data, weights, given.out, features=features, seed=given.seed, device=given.device, smoke=given.smoke)


if __name__ == "__main__":
    main()
