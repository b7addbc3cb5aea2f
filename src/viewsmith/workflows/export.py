"""Models for others: encoders in formats that other libraries load; whole models as repositories by the layout of the
Hugging Face Hub, a card, a configuration, weights as safetensors."""

import json
import logging
import os
import re
import shutil
import tempfile
import warnings
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any, Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check_choice, error_text, one_line, pluralize, require
from viewsmith.core.files import atomic_folder, atomic_path, read_json, target_of, write_json_atomic
from viewsmith.core.tensors import save_tensors
from viewsmith.data.places import check_not_of_run, repository_of
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.plan import device_of
from viewsmith.methods.linear_contrast.training import Graph, LinearContrastMethod
from viewsmith.modalities import modality_of
from viewsmith.modalities.images.encoders import ResNet
from viewsmith.reports import ReportContent, png_files
from viewsmith.training.run import RunFolder
from viewsmith.workflows.runs import load_run

Format = Literal["timm", "torchvision", "onnx", "safetensors"]

SMALL_STEM = (
    "its first layer is for small images: before loading, replace model.conv1 by "
    "nn.Conv2d({channels}, 64, 3, 1, 1, bias=False) and model.maxpool by nn.Identity()"
)


def export_encoder(model: ViewsmithEstimator, out: Path, form: str) -> str:
    """Write the encoder of a fitted model, and return one line on how to load it."""
    check_not_of_run(out)
    _check_columns(model, out)
    check_choice("the format", form, Format)
    encoder = model.encoder_
    closed = getattr(model.method_, "closed", None) is not None
    appended = "; the columns of the closed form, which transform appends, are not written" if closed else ""
    of_views = "" if hasattr(model.method_, "framework") else "; it encodes single views, over which transform averages"
    if form == "onnx":
        if of_views:
            raise InputError(
                f"the representation of {model.name} is a mean over views, which is not written to ONNX: use "
                "--format safetensors for its encoder, or `viewsmith embed`"
            )
        if isinstance(model.method_, LinearContrastMethod):
            encoder = Graph(model.method_)
        return _write_onnx(model, encoder, out) + appended + _write_columns(model, out)
    weights = dict(encoder.state_dict())
    if form == "safetensors":
        scaler = {f"scaler.{name}": value for name, value in model.scaler_.state_dict().items()}
        save_tensors(target_of(out), weights | scaler)
        hint = "names as in viewsmith.load(RUN).encoder_, of which print shows the layers; scaler.* scales samples"
        return hint + of_views + appended + _write_columns(model, out)
    hint = _published_names(model, encoder, form)
    save_tensors(target_of(out), weights)
    return hint + of_views + appended


#: What a feature of a column of each role is, for those who encode tables without viewsmith.
ROLES = {
    "numeric": "the number; a gap is the median; with gaps, a second feature is 1 for a gap, else 0",
    "category": "1 for the value of the row, else 0, in the order of values; then, unless values contains it, 'other' "
    "for all other values; with gaps, a last feature for a gap",
    "text": "coordinates of hashed n-grams, or words, on principal axes: use viewsmith.load(RUN).table_.encode(frame)",
    "date": "the parts, elapsed in days since origin; a gap is the median; with gaps, a last feature is 1 for a gap",
}


def _check_columns(model: ViewsmithEstimator, out: Path) -> None:
    """Raise InputError if `_write_columns` would replace another file, of a name that the user did not give."""
    path = out.with_suffix(".columns.json")
    try:
        ours = model.table_ is None or not os.path.lexists(path) or {"roles", "columns"} <= read_json(path).keys()
    except (OSError, ValueError, AttributeError):
        ours = False
    if not ours:
        raise InputError(f"{path}, which says how columns become features, would be replaced: give another --out")


def _write_columns(model: ViewsmithEstimator, out: Path) -> str:
    """Write how the columns of a mixed table become features, as JSON beside a file; returns where it is, if so."""
    table = model.table_
    if table is None:
        return ""
    fitted, path = table.as_dict()["columns"], out.with_suffix(".columns.json")
    described = [
        each | {"features": column.features, "first_feature": first}
        for each, column, (first, _) in zip(fitted, table.columns, table.spans, strict=True)
    ]
    roles = {role: text for role, text in ROLES.items() if any(each["role"] == role for each in fitted)}
    write_json_atomic(path, {"n_features": len(table.features), "roles": roles, "columns": described})
    return f"; {path.name} says how columns become the {len(table.features)} features"


def _published_names(model: ViewsmithEstimator, encoder: nn.Module, form: str) -> str:
    """How to load an encoder with another library; InputError if the library has no such encoder."""
    name = _name(model)
    if isinstance(encoder, ResNet):
        # viewsmith.modalities.images.encoders has the same weight names as both libraries.
        make = f"timm.create_model({name!r}, num_classes=0" if form == "timm" else f"torchvision.models.{name}("
        channels = encoder.conv1.in_channels
        if channels != 3:
            make += f", in_chans={channels}" if form == "timm" else ""
        hint = f"load with model = {make}); model.load_state_dict(safetensors.torch.load_file(FILE)"
        hint += ")" if form == "timm" else ", strict=False), which leaves model.fc as it is"
        if encoder.conv1.kernel_size == (3, 3):
            hint += "; " + SMALL_STEM.format(channels=channels)
        elif channels != 3 and form == "torchvision":
            hint += f"; before loading, replace model.conv1 by one of {channels} channel"
    elif form == "timm" and name.startswith("timm:"):
        hint = f"load with timm.create_model({name.removeprefix('timm:')!r}, num_classes=0) and load_state_dict"
    else:
        kinds = "resnet18, resnet50 and timm:NAME" if form == "timm" else "resnet18 and resnet50"
        raise InputError(f"{form} has no encoder like {name}: export as safetensors or onnx, or train one of {kinds}")
    return f"{hint}; scale images as {model.scaler_}"


def _name(model: ViewsmithEstimator) -> str:
    """The encoder in messages; the closed form has none, but features."""
    return model.name if isinstance(model.method_, LinearContrastMethod) else str(model.options_.encoder)


class _Whole(nn.Module):
    """From samples in the units of the data to representations."""

    def __init__(self, scaler: nn.Module, encoder: nn.Module) -> None:
        super().__init__()
        self.scaler, self.encoder = scaler, encoder

    def forward(self, samples: Tensor) -> Tensor:
        return self.encoder(self.scaler(samples))


def _write_onnx(model: ViewsmithEstimator, encoder: nn.Module, out: Path) -> str:
    for package in ("onnx", "onnxscript"):
        require(package, "export", "writing ONNX")
    device = device_of(model.scaler_, model.method_)
    example, layer = model.modality_.onnx_example(model.facts_.row_shape, model.scaler_)
    example = example.to(device)
    whole = (encoder if layer is None else _Whole(layer, encoder)).eval()
    for name in ("torch.onnx", "onnxscript", "onnx_ir"):  # whose warnings are for their developers
        logging.getLogger(name).setLevel(logging.ERROR)
    with atomic_path(target_of(out)) as temporary, warnings.catch_warnings(action="ignore"):
        with torch.no_grad():
            whole(example)  # what networks keep for later, such as tables of a Fourier transform, are then real tensors
        try:
            program = torch.onnx.export(
                whole,
                (example,),
                input_names=["samples"],
                output_names=["representation"],
                dynamic_shapes=({0: torch.export.Dim("n")},),
                dynamo=True,
                verbose=False,
            )
            assert program is not None
            program.save(str(temporary), external_data=False)
        except Exception as error:
            # The library's advice is for its developers, in color; its reason is at the end.
            detail = " ".join(re.sub(r"\x1b\[\d*m", "", str(error.__cause__ or error)).split())[:200]
            raise InputError(
                f"the encoder {_name(model)} cannot be exported to ONNX ({detail}): use safetensors"
            ) from error
    kind, shape = str(example.dtype).removeprefix("torch."), example.shape[1:]
    return f"input samples: {kind} (n, {', '.join(map(str, shape))}); output representation"


#: A path from the root or the home directory, in a text; the last group is its name. URLs are none.
_PATH = re.compile(r"(?<![\w.:/~])~?/(?:[^\s/'\"`,;:()]+/)+([^\s/'\"`,;:()]+)")


def without_paths(value: Any, known: Sequence[str] = ()) -> Any:
    """Plain values in which paths of this machine, those that are `known` among them, are their last names."""
    if isinstance(value, dict):
        return {key: without_paths(each, known) for key, each in value.items()}
    if isinstance(value, list):
        return [without_paths(each, known) for each in value]
    if not isinstance(value, str):
        return value
    is_text = re.search(r"[:;,] ", value)
    if os.sep in value and not is_text and (os.path.isabs(value) or os.path.exists(value)):
        return Path(value).name
    for path in filter(None, known):
        value = value.replace(path, Path(path).name)
    return _PATH.sub(r"\1", value)


def push(
    model: str | os.PathLike[str] | ViewsmithEstimator,
    to: str | os.PathLike[str],
    X: Any = None,
    y: Any = None,
    *,
    private: bool = False,
    license: str | None = None,
) -> str:
    """Publish a model as a repository of the Hugging Face Hub, or write one to a folder.

    It has ``README.md`` (the card: data, training, protocol and scores of `viewsmith evaluate`, figures, warnings, how
    to load), ``config.toml`` and the same as ``config.json``, weights before and after training as safetensors, metrics
    and summary. Nothing is pickled. It has no rows, no row hashes and no path of this machine.

    Parameters
    ----------
    model : path or ViewsmithEstimator
        A run folder, or a fitted model.
    to : str or path
        ``hf://OWNER/NAME`` (extra ``hub``; the account is that of ``hf auth login`` or HF_TOKEN), or a new folder.
    X, y : array-like, optional
        Samples, and labels for colors, whose pictures the card shows: maps, and views beside their samples. Only what
        may be published.
    private : bool
        For a new repository.
    license : str, optional
        Of the weights, by its name on the Hub.

    Returns
    -------
    str
        The address of the repository, or the folder.

    Raises
    ------
    InputError
        Not a finished run; a folder that exists; no access to the Hub.
    """
    target, repository = os.fspath(to), repository_of(to)
    if repository is None and Path(target).exists():
        raise InputError(f"{target} exists: choose a new folder")
    with tempfile.TemporaryDirectory() as temporary:
        if isinstance(model, ViewsmithEstimator):
            model.save(run := Path(temporary, "run"))
        else:
            run = Path(model)
            model = load_run(run)
        pictures = {} if X is None else model.pictures(X, y)
        if repository is None:
            with atomic_folder(target) as folder:
                _write(folder, RunFolder(run), model, pictures, "PATH", license)
            return target
        name, _ = repository
        _write(folder := Path(temporary, "repository"), RunFolder(run), model, pictures, f"hf://{name}", license)
        require("huggingface_hub", "hub", "publishing a model")
        from huggingface_hub import HfApi

        try:
            api = HfApi(library_name="viewsmith")
            api.create_repo(name, private=private, exist_ok=True)
            api.upload_folder(repo_id=name, folder_path=folder, commit_message=f"viewsmith: {model.name}")
        except Exception as error:  # of the network, the server and the account
            raise InputError(f"{target} cannot be written ({one_line(error_text(error), 200)})") from error
        return f"{api.endpoint}/{name}"


def _write(
    folder: Path,
    run: RunFolder,
    model: ViewsmithEstimator,
    pictures: Mapping[str, bytes],
    address: str,
    license: str | None,
) -> None:
    """Write the files of a repository."""
    folder.mkdir(parents=True, exist_ok=True)
    if linked := [file.name for file in run.files if file.is_symlink()]:
        raise InputError(f"{run.path / linked[0]} is a symbolic link, which is not published: put a copy in its place")
    target, config = RunFolder(folder), run.read_config()
    config.pop("command", None)
    known = [config.get("data", {}).get("source", ""), str(run.path.absolute()), str(Path.home())]
    config, summary, evaluation, metrics = (
        without_paths(each, known) for each in (config, run.read_summary(), run.read_evaluation(), run.read_metrics())
    )
    for name in ("model", "initial"):
        shutil.copyfile(getattr(run, name), getattr(target, name))
    target.write_config(config)
    target.write_summary(summary)
    target.write_metrics(metrics)
    if evaluation is not None:
        write_json_atomic(target.evaluation, evaluation)
    (folder / "config.json").write_text(json.dumps(config, indent=1), encoding="utf-8")
    drawn = png_files(ReportContent(model.name, model.name, metrics=metrics)) | dict(pictures)
    for name, png in drawn.items():
        (folder / "figures").mkdir(exist_ok=True)
        (folder / "figures" / f"{name}.png").write_bytes(png)
    card = _card(config, summary, evaluation, sorted(drawn), address, license)
    (folder / "README.md").write_text(card, encoding="utf-8")


def _card(
    config: Mapping[str, Any],
    summary: Mapping[str, Any],
    evaluation: Mapping[str, Any] | None,
    figures: list[str],
    address: str,
    license: str | None,
) -> str:
    """The text of README.md, with the fields that the Hub reads at its top."""
    fitted, method = config["fitted"], config["method"]
    data, split = config.get("data", {}), summary.get("split", {})
    fields = {
        "library_name": "viewsmith",
        **({} if license is None else {"license": license}),
        "pipeline_tag": f"{'image-' if modality_of(fitted['modality']).is_image else ''}feature-extraction",
        "tags": ["viewsmith", "contrastive-learning", "self-supervised-learning", method, fitted["modality"]],
    }
    shape = " x ".join(map(str, fitted["row_shape"]))
    drawn = ", ".join(f"{split[part]:,} {part}" for part in ("train", "test") if part in split)
    seconds, hardware = summary.get("seconds", {}).get("training"), summary.get("hardware", {})
    versions = ", ".join(f"{name} {version}" for name, version in summary.get("versions", {}).items())
    lines = [
        "---",
        *(f"{name}: {json.dumps(value)}" for name, value in fields.items()),
        "---",
        f"# {method} on {data.get('source', 'arrays')}",
        f"Representations of {fitted['modality']} with {fitted['n_components']} components, learned "
        f"{'with the labels of some rows' if fitted.get('labeled_rows') else 'without labels'}.",
        f"```python\nimport viewsmith\n\nmodel = viewsmith.load({address!r})\nH = model.transform(X)\n```",
        "## Data",
        _table(
            [
                ("rows", f"{fitted['modality']}, each of {shape}"),
                ("training rows", f"{summary.get('rows', 0):,} of {data.get('source', 'arrays given in Python')}"),
                ("split", f"{split['kind']}: {drawn}" if split else "none"),
                ("scaling", fitted["scaling"]),
            ]
        ),
        "## Training",
        _table(
            [
                ("method", f"{method}, framework {fitted['framework']}, views {fitted['view_maker']}"),
                ("encoder", fitted["encoder"]),
                ("length", f"{summary.get('epochs')} epochs, {summary.get('steps')} steps, {seconds:.3g} s"),
                ("seed", fitted["seed"]),
                (
                    "hardware",
                    f"{summary['device']}, {hardware['processor']}, {pluralize(hardware['threads'], 'thread')}",
                ),
                ("versions", versions),
            ]
        ),
        "## Evaluation",
        *_scores(evaluation),
        *(["## Figures", *(f"![{name.replace('_', ' ')}](figures/{name}.png)" for name in figures)] if figures else []),
    ]
    if summary.get("warnings"):
        lines += ["## Warnings of the training", "\n".join(f"- {line}" for line in summary["warnings"])]
    start = lines.index("---", 1) + 1
    return "\n".join(lines[:start]) + "\n\n" + "\n\n".join(lines[start:]) + "\n"


def _scores(evaluation: Mapping[str, Any] | None) -> list[str]:
    """Scores and protocol of `viewsmith evaluate`."""
    if not evaluation:
        return [
            "Not evaluated: `viewsmith evaluate RUN DATA` compares with raw features, PCA and the untrained encoder."
        ]
    protocols, rows, embeddings = evaluation["protocols"], evaluation["rows"], evaluation["embeddings"]
    scores = [
        (name, *(f"{row[protocol]:.3f}" if protocol in row else "" for protocol in protocols))
        for name, row in embeddings.items()
    ]
    return [
        f"Fitted on {rows['train']:,} training rows, scored on {rows['test']:,} test rows; one training.",
        _table(scores, ("row", *protocols)),
        "\n".join(f"- {name}: {text}" for name, text in protocols.items()),
    ]


def _table(rows: list[tuple[Any, ...]], header: tuple[str, ...] = ("", "")) -> str:
    lines = [header, ("---",) * len(header), *rows]
    return "\n".join(
        "| " + " | ".join(one_line(cell, 200).replace("|", "\\|") for cell in line) + " |" for line in lines
    )
