"""What the tests of the plug-in do in a process of their own; every function returns what JSON can hold."""

import dataclasses
import json
import warnings
from pathlib import Path

import numpy as np
import torch
from cli_tools import call
from sklearn.datasets import load_wine

import viewsmith
from viewsmith.core.errors import InputError
from viewsmith.training.run import RunFolder
from viewsmith.views import GaussianNoise

TINY = {"epochs": 2, "hidden": (16,), "n_components": 8, "projector_dims": (4,), "random_state": 0}
LEVELS = "noise.levels=0.1,0.5"
SETS = [part for name in ("hidden=16", "n_components=8", "projector_dims=4") for part in ("--set", name)]
PARTS = ("--framework", "align-uniform", "--views", "drift", "--epochs", 2, *SETS)
OPTIONS = ("--set", "uniformity=2", "--set", "drift-strength=0.3", "--set", "drift_knots=3")


def wine():
    return load_wine().data.astype(np.float32)


def run_command(*arguments):
    """A command's exit code and what it printed."""
    return dataclasses.asdict(call(*arguments))


def message(function, *arguments, **options):
    """What a call is refused with."""
    try:
        function(*arguments, **options)
    except InputError as error:
        return str(error)
    raise AssertionError("nothing was refused")


def commands(folder):
    """Parts of the plug-in on the command line."""
    folder = Path(folder)
    run, own = folder / "run", folder / "denoising"
    found = {
        "methods": run_command("methods"),
        "json": run_command("methods", "--json"),
        "help": run_command("fit", "--help"),
        "fit": run_command("fit", "wine", *PARTS, *OPTIONS, "--out", run),
        "resume": run_command("fit", "wine", *PARTS, *OPTIONS, "--out", run, "--resume"),
        "embed": run_command("embed", run, "wine", "--out", folder / "h.npz"),
        "evaluate": run_command("evaluate", run, "wine", "--json", "--protocols", "knn"),
        "report": run_command("report", run),
        "views": run_command("views", run, "wine", "--out", folder / "views.npz"),
        "denoising": run_command(
            *("fit", "wine", "--method", "denoising", "--epochs", 2, *SETS, "--set", LEVELS, "--out", own)
        ),
        "denoising embed": run_command("embed", own, "wine", "--out", folder / "own.npz"),
        "denoising evaluate": run_command("evaluate", own, "wine", "--protocols", "knn"),
        "denoising report": run_command("report", own),
        "denoising views": run_command("views", own, "wine", "--n", 2, "--out", folder / "own_views.npz"),
    }
    refused = {
        "close": (*PARTS, "--set", "uniformty=2"),
        "value": (*PARTS, "--set", "uniformity=-1"),
        "knots": (*PARTS, "--set", "drift_knots=one"),
        "other framework": ("--set", "uniformity=2"),
        "no preset": ("--method", "denoising", "--preset", "paper"),
        "too few": ("--method", "denoising", "--set", "levels=0.1"),
        "too many": ("--method", "denoising", "--set", "levels=0.1,0.2,0.3"),
        "unknown part": ("--framework", "align-unifrom", "--set", "uniformity=2"),
    }
    found |= {name: run_command("fit", "wine", *given, "--out", folder / "no") for name, given in refused.items()}
    config = RunFolder(run).read_config()
    own_config = RunFolder(own).read_config()
    rows = [json.loads(line) for line in (own / "metrics.jsonl").read_text().splitlines()]
    return {
        "commands": found,
        "config": config,
        "own config": own_config,
        "rows": rows,
        "left": (folder / "no").exists(),
    }


def in_python(folder):
    """The same parts in Python, by name and as objects, saved and loaded; and the run that a command made."""
    from viewsmith_example import AlignUniform, Denoising, Drift

    from viewsmith.core.registry import register
    from viewsmith.estimator.options import route_options

    folder, x = Path(folder), wine()
    options = {"framework_options": {"uniformity": 2.0}, "view_options": {"drift_strength": 0.3, "drift_knots": 3}}
    named = viewsmith.Contrastive(framework="align-uniform", view_maker="drift", **options, **TINY).fit(x)
    parts = {"framework": AlignUniform(uniformity=2.0), "view_maker": Drift(drift_strength=0.3, drift_knots=3)}
    objects = viewsmith.Contrastive(**parts, **TINY).fit(x)
    noise = viewsmith.PiNDA(framework="align-uniform", view_maker="drift", **TINY).fit(x)
    own = Denoising(levels=(0.1, 0.5), **TINY).fit(x)
    models = {"named": named, "objects": objects, "noise": noise, "own": own}
    same = {}
    for name, model in models.items():
        model.save(folder / name)
        loaded = viewsmith.load(folder / name, **(parts if name == "objects" else {}))
        same[name] = bool(
            np.array_equal(loaded.transform(x), model.transform(x)) and np.array_equal(loaded.views(x), model.views(x))
        )

    def _two_words(context, *, uniformity: float = 1.0):
        return Drift()

    _two_words.__module__ = "__main__"  # as if a script had registered it
    register("view maker", "two words", help="an option of the name of a framework's", modalities="vectors")(_two_words)

    @register("encoder", "deep", help="an option without a default", modalities="vectors", default_width=4)
    def _deep(context, *, depth: int):
        return torch.nn.Sequential(*[torch.nn.LazyLinear(context.n_components) for _ in range(depth)])

    @register("encoder", "wider", help="one column too many", modalities="vectors", default_width=4)
    def _wider(context, by_place=1):
        return torch.nn.LazyLinear(context.n_components + by_place)

    @register("framework", "strict", help="an option without a default")
    class _Strict(AlignUniform):
        def __init__(self, encoder=None, head=None, *, factor: float):
            super().__init__(encoder, head)

    spaced = viewsmith.Contrastive(view_maker="two words", **TINY).fit(x)
    spaced.save(folder / "spaced")
    both = {"framework": "align-uniform", "view_maker": "two words", "uniformity": "2"}
    images = np.random.default_rng(0).integers(0, 255, (20, 8, 8), dtype=np.uint8)
    return {
        "same": same,
        "spaced": bool(np.array_equal(viewsmith.load(folder / "spaced").transform(x), spaced.transform(x))),
        "objects are names": bool(np.array_equal(named.transform(x), objects.transform(x))),
        "packages": {name: model.fitted_["packages"] for name, model in models.items()},
        "knots": named.method_.views.makers[0].drift_knots,
        "learned": own.method_.noise[1].scale.tolist(),
        "two parts": message(route_options, viewsmith.Contrastive, both),
        "without the objects": message(viewsmith.load, folder / "objects", view_maker=Drift()),
        "no depth": message(viewsmith.Contrastive(encoder="deep", **TINY).fit, x),
        "no factor": message(viewsmith.Contrastive(framework="strict", **TINY).fit, x),
        "wider": message(viewsmith.Contrastive(encoder="wider", **TINY).fit, x),
        "by place": message(viewsmith.Contrastive, encoder="wider", by_place=0),
        "no such option": message(viewsmith.Contrastive(framework_options={"uniformity": 1.0}, **TINY).fit, x),
        "images": message(Denoising(**TINY).fit, images),
    }


def clouds(n=90, points=48, seed=0):
    """Spheres, cubes and tubes, each turned around the vertical axis; float32 (n, points, 3), and their classes."""
    rng = np.random.default_rng(seed)
    y, found = np.arange(n) % 3, np.empty((n, points, 3), np.float32)
    for cloud, kind in zip(found, y, strict=True):
        direction, angle = rng.normal(size=(points, 3)), rng.uniform(0, 2 * np.pi, points)
        ball = direction / np.linalg.norm(direction, axis=1, keepdims=True)
        cube = direction / np.abs(direction).max(axis=1, keepdims=True)
        tube = np.stack([np.cos(angle), np.sin(angle), rng.uniform(-1, 1, points)], axis=1)
        turn = rng.uniform(0, 2 * np.pi)
        around = np.array([[np.cos(turn), -np.sin(turn), 0], [np.sin(turn), np.cos(turn), 0], [0, 0, 1]])
        cloud[:] = (ball, cube, tube)[kind] @ around
    return found, y


def points(folder):
    """The modality of the plug-in, point clouds: every command, and every method in Python."""
    from viewsmith.methods.loading import estimators

    folder = Path(folder)
    x, y = clouds()
    data, run = folder / "clouds.npz", folder / "run"
    np.savez(data, X=x, y=y)
    found = {
        "fit": run_command(
            "fit", data, "--epochs", 3, "--set", "cloud_turn=90", "--set", "n_components=8", "--out", run
        ),
        "embed": run_command("embed", run, data, "--out", folder / "h.npz"),
        "evaluate": run_command("evaluate", run, data, "--protocols", "knn"),
        "report": run_command("report", run),
        "views": run_command("views", run, data, "--out", folder / "views.npz"),
        "compare": run_command(
            *("compare", data, "--methods", "contrastive", "--seeds", 1, "--protocols", "knn"),
            *("--set", "epochs=1", "--out", folder / "compare"),
        ),
        "symmetries": run_command("symmetries", data),
        "flat": run_command("fit", data, "--modality", "vectors", "--epochs", 1, "--out", folder / "flat"),
    }
    files = folder / "shapes"
    for number, (cloud, kind) in enumerate(zip(x[:24], y, strict=False)):
        (files / f"kind {kind}").mkdir(parents=True, exist_ok=True)
        np.savetxt(files / f"kind {kind}" / f"{number:02}.xyz", cloud[: 48 - number % 2])
    of_files, small = folder / "of_files", ("--epochs", 1, "--set", "n_components=8")
    found |= {
        "fit files": run_command("fit", files, *small, "--out", of_files),
        "embed files": run_command("embed", of_files, files, "--out", folder / "files.npz"),
        "evaluate files": run_command("evaluate", of_files, files, "--protocols", "knn"),
        "option of files": run_command("fit", files, "--image-size", 8, "--out", folder / "no"),
    }
    small, said = {"epochs": 1, "n_components": 4, "random_state": 0}, {}
    for name, cls in estimators().items():
        try:
            model = cls(**small).fit(x)
        except InputError as error:
            said[name] = str(error)
            continue
        model.save(folder / name)
        loaded = viewsmith.load(folder / name)
        views = model.views(x[:4], 2)
        same = np.array_equal(loaded.transform(x), model.transform(x)) and np.array_equal(loaded.views(x[:4], 2), views)
        viewsmith.report(folder / name, x)
        said[name] = [bool(same), list(views.shape)]
    config = RunFolder(run).read_config()
    return {"commands": found, "methods": said, "config": config, "report": (run / "report.html").read_text()}


def baseline(folder):
    """Baselines of a plug-in, computed on request or always, and a noise generator that is no default."""
    from viewsmith.core.registry import register

    @register("baseline", "asked", help="half of the features", on_request=True)
    def _asked(context):
        return tuple(rows[:, :6] for rows in context.raw_features())

    @register("baseline", "always", help="the other half")
    def _always(context):
        return tuple(rows[:, 6:] for rows in context.raw_features())

    out, found = Path(folder) / "baselines", {}
    options = [part for name in ("epochs=1", *SETS[1::2]) for part in ("--set", name)]
    for name, baselines in (("asked", "raw,asked"), ("all", "raw,always")):
        shared = ("wine", "--methods", "contrastive", "--seeds", 1, "--protocols", "knn", *options)
        found[name] = run_command("compare", *shared, "--baselines", baselines, "--out", out / name)
    return found | {"rows": json.loads((out / "asked" / "leaderboard.json").read_text())["rows"]}


def without(folder):
    """What is said of these runs where the plug-in is not installed."""
    found = {}
    for name in ("run", "denoising"):
        run = Path(folder) / name
        found[name] = {
            "load": message(viewsmith.load, run),
            "embed": run_command("embed", run, "wine", "--out", Path(folder) / "none.npz"),
            "report": run_command("report", run),
        }
    found["spaced"] = message(viewsmith.load, Path(folder) / "spaced")
    return found


def broken():
    """Commands beside a plug-in that cannot be imported."""
    with warnings.catch_warnings(record=True):
        methods = run_command("methods")  # the first command warns
        return {"methods": methods, "unknown": run_command("fit", "wine", "--framework", "nothing", "--out", "no")}


def five_channels(folder):
    """A custom modality of float images with five channels: commands on files, and what reads and draws them."""
    from viewsmith.core.registry import register
    from viewsmith.modalities import Modality
    from viewsmith.modalities.base import SampleType
    from viewsmith.networks import SmallCNN

    class Planes(torch.nn.Module):
        """Images (n, H, W, 5) to (n, 5, H, W), divided by the standard deviation of each channel; and back."""

        def __init__(self):
            super().__init__()
            self.register_buffer("scale", torch.ones(5))

        def fit(self, raw, scaling):
            self.scale.copy_(raw.std((0, 1, 2)))
            return "standard"

        def forward(self, rows):
            return (rows.float() / self.scale).movedim(3, 1).contiguous()

        def inverse(self, x):
            return x.movedim(1, 3) * self.scale

    class Spectral(Modality):
        name, help = "spectral", "reflectance in five bands"
        samples = SampleType({"height": None, "width": None, "channel": (5,)}, "float32", 0, 1, unit="reflectance")
        default_views, default_encoder, default_encoder_on_gpu = "speckle", "planes", "planes"
        picture, is_image = "pixels", True

        def recognizes(self, X):
            return isinstance(X, np.ndarray) and X.dtype.kind == "f" and self.samples.has_shape(X.shape[1:])

        def input_layer(self, row_shape):
            return Planes()

        def channels(self, row_shape):
            return row_shape[2]

        def blank(self, row_shape):
            return torch.zeros(1, row_shape[2], *row_shape[:2])

        def drawn(self, samples):
            return samples[..., [3, 2, 1]]

        def raw_features(self, rows, layer):
            return {"means of channels": rows.mean((1, 2))}

        def transformations(self, row_shape):
            return {"mirror": lambda x: x[:, :, ::-1]}

    register("modality", "spectral", help=Spectral.help)(Spectral)

    @register("encoder", "planes", help="a small network", modalities="spectral", default_width=16)
    def _planes(context):
        return SmallCNN(context.channels, context.n_components)

    @register("view maker", "speckle", help="noise", modalities="spectral")
    def _speckle(context, *, speckle: float = 0.2):
        return GaussianNoise(speckle)

    folder, rng = Path(folder), np.random.default_rng(0)
    x, y = rng.random((90, 16, 16, 5), dtype=np.float32), np.arange(90) % 2
    x[y == 1, 4:9, 4:9, 4] += 1
    lacks = [message(cls(epochs=1).fit, x) for cls in (viewsmith.PiNDA, viewsmith.DiffAug, viewsmith.CRLTAC)]

    @register("noise generator", "planes", help="one layer", modalities="spectral", default=True)
    def _noise(context):
        return torch.nn.Sequential(torch.nn.Conv2d(context.channels, context.outputs, 1))

    data, run, plain = folder / "fields.npz", folder / "run", folder / "fields.npy"
    np.savez(data, X=x, y=y)
    np.save(plain, x)
    found = {
        "fit": run_command("fit", data, "--epochs", 2, "--out", run),
        "embed": run_command("embed", run, data, "--out", folder / "h.npz"),
        "evaluate": run_command("evaluate", run, data, "--protocols", "knn"),
        "views": run_command("views", run, data, "--out", folder / "v.npz"),
        "report": run_command("report", run),
        "symmetries": run_command("symmetries", data),
        "pinda": run_command("fit", plain, "--method", "pinda", "--epochs", 1, "--out", folder / "pinda"),
        "methods": run_command("methods"),
        "shape": run_command("embed", run, _saved(folder / "wrong.npy", x[:, :, :, :4]), "--out", folder / "no.npz"),
    }
    assert (folder / "h.npz").exists() and (folder / "v.npz").exists(), found
    with np.load(folder / "h.npz") as made, np.load(folder / "v.npz") as views:
        shapes = [list(made["H"].shape), list(views["views"].shape), str(views["views"].dtype)]
    report = "data:image/png" in (run / "report.html").read_text()
    return {"commands": found, "shapes": shapes, "lacks": lacks, "report": report}


def _saved(path, x):
    np.save(path, x)
    return path
