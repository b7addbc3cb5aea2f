"""The command export."""

from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.data.places import check_parent


@options.with_flags("debug")
def export(
    run: options.Run,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")],
    format_: Annotated[
        str, typer.Option("--format", help="timm, torchvision, onnx (extra export) or safetensors")
    ] = "safetensors",
) -> None:
    """Write the encoder of RUN in a format that other libraries can load."""
    early.check_paths(run=run)
    early.check_values(format=format_)
    check_parent(out)
    options.check_out(out, str(run))
    from viewsmith.workflows.export import export_encoder
    from viewsmith.workflows.runs import load_run

    model = load_run(run)
    with writing(out):
        hint = export_encoder(model, out, format_)
    echo(hint, err=True)
    echo(str(out))
