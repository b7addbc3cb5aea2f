"""Export of encoders to formats that other libraries load."""

import logging
import os
import re
import warnings
from pathlib import Path
from typing import Literal

import torch
from torch import Tensor, nn

from viewsmith.core.errors import InputError, check_choice, require
from viewsmith.core.files import atomic_path, read_json, target_of, write_json_atomic
from viewsmith.core.tensors import save_tensors
from viewsmith.data.places import check_not_of_run
from viewsmith.estimator.base import ViewsmithEstimator
from viewsmith.estimator.rows import device_of
from viewsmith.frameworks import Framework
from viewsmith.methods.linear_contrast.training import Graph, LinearContrastMethod
from viewsmith.modalities.images.encoders import ResNet

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
    framework: Framework | None = getattr(model.method_, "framework", None)
    encoder = model.method_.get_submodule("encoder") if framework is None else framework.output_networks[0]
    closed = getattr(model.method_, "closed", None) is not None
    appended = "; the columns of the closed form, which transform appends, are not written" if closed else ""
    of_views = "" if framework is not None else "; it encodes single views, over which transform averages"
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
        save_tensors(
            target_of(out), weights | {f"scaler.{name}": value for name, value in model.scaler_.state_dict().items()}
        )
        hint = "load into the encoder of viewsmith.networks with the same weight names; scaler.* is the input scaling"
        return hint + of_views + appended + _write_columns(model, out)
    hint = _published_names(model, encoder, form)
    save_tensors(target_of(out), weights)
    return hint + of_views + appended


#: What a feature of a column of each role is, for those who encode tables without viewsmith.
ROLES = {
    "numeric": "the number; a gap is the median; with gaps, a second feature is 1 for a gap, else 0",
    "category": "1 for the value of the row, else 0, in the order of values; then, unless values contains it, 'other' "
    "for all other values; with gaps, a last feature for a gap",
    "text": "coordinates of hashed n-grams on principal axes: use viewsmith.load(RUN).table_.encode(frame)",
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
        h: Tensor = self.encoder(self.scaler(samples))
        return h


def _write_onnx(model: ViewsmithEstimator, encoder: nn.Module, out: Path) -> str:
    for package in ("onnx", "onnxscript"):
        require(package, "export", "writing ONNX")
    device = device_of(model.scaler_, model.method_)
    example, layer = model.modality_.onnx_example(model.facts_.row_shape, model.scaler_)
    example = example.to(device)
    whole = (encoder if layer is None else _Whole(layer, encoder)).eval()
    for name in ("torch.onnx", "onnxscript", "onnx_ir"):  # whose warnings are for their developers
        logging.getLogger(name).setLevel(logging.ERROR)
    with atomic_path(target_of(out)) as temporary, warnings.catch_warnings():
        warnings.simplefilter("ignore")
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
