"""The command demo: the first commands, run one after another on data of scikit-learn."""

import shlex
from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli.errors import echo
from viewsmith.cli.options import with_flags
from viewsmith.core.errors import InputError, quoted

#: Of scikit-learn: 1,797 images of handwritten digits, as rows of 64 numbers.
DATA = "digits"


@with_flags("threads", "debug")
def demo(
    out: Annotated[Path, typer.Option(metavar="DIR", help="A new folder for everything that is made.")] = Path("demo"),
) -> None:
    """Run the quick start on handwritten digits: train, compare with raw features, embed, make views. Seconds.

    Each command is shown before it runs; run it on your own data in the same way.
    """
    from viewsmith.cli import app

    if out.exists():
        raise InputError(f"--out is {quoted(out)}, which exists: remove it, or choose another folder")
    run = out / "run"
    for words in (
        ["fit", DATA, "--out", str(run)],
        ["evaluate", str(run), DATA],
        ["embed", str(run), DATA, "--out", str(out / "embedded.csv")],
        ["views", str(run), DATA, "--n", "4", "--out", str(out / "views.csv")],
    ):
        echo(f"\n$ viewsmith {shlex.join(words)}")
        app(args=words, prog_name="viewsmith", standalone_mode=False)
    echo(f"\nOpen {run / 'report.html'} in a browser. With your own table: viewsmith fit TABLE.csv --out RUN")
