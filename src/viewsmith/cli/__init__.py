"""The command line: demo, fit, embed, plot, evaluate, compare, tune, views, discover, symmetries, views-table, locate,
generate, export, push, report, methods."""

import os
import re
import shlex
import sys
import traceback
import warnings
from functools import partial
from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from viewsmith.cli.compare import compare, evaluate, tune
from viewsmith.cli.errors import cut, echo, explain, leave, show_warning
from viewsmith.cli.fit import FitCommand, fit
from viewsmith.cli.methods import methods
from viewsmith.cli.models import embed, export, plot, push, report
from viewsmith.cli.options import ListingCommand, with_flags
from viewsmith.cli.parts import discover, locate, symmetries
from viewsmith.cli.views import generate, views, views_table
from viewsmith.core import __version__
from viewsmith.core.errors import InputError, printable, quoted

app = typer.Typer(
    help="Contrastive learning with learned and generated views.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
)


#: What the command says without arguments.
FIRST = """viewsmith learns representations of data without labels, and makes the views for it.
Most people need four commands:

  viewsmith fit DATA --out RUN          train; DATA: a table, .h5ad, FASTA, a folder of images, ...
  viewsmith evaluate RUN DATA           is it better than raw features and PCA? RUN/report.html
  viewsmith embed RUN DATA --out FILE   representations of these or of new samples
  viewsmith discover DATA --out DIR     what recurs in images, sequences or recordings, and where

Try them in a minute: viewsmith demo
All commands: viewsmith --help; options of one: viewsmith COMMAND --help"""


def show_version(wanted: bool) -> None:
    """Print the version and exit."""
    if wanted:
        typer.echo(__version__)
        raise typer.Exit


@app.callback()
def common(
    version: Annotated[
        bool, Option("--version", callback=show_version, is_eager=True, help="Show the version and exit.")
    ] = False,
) -> None:
    """Contrastive learning with learned and generated views."""


#: Of scikit-learn: 1,797 images of handwritten digits, as rows of 64 numbers.
DEMO_DATA = "digits"


@with_flags("threads", "debug")
def demo(
    out: Annotated[Path, Option(metavar="DIR", help="A new folder for everything that is made.")] = Path("demo"),
) -> None:
    """Run the quick start on handwritten digits: train, compare with raw features, embed, make views. Seconds.

    Each command is shown before it runs; run it on your own data in the same way.
    """
    if out.exists():
        raise InputError(f"--out is {quoted(out)}, which exists: remove it, or choose another folder")
    run = out / "run"
    for words in (
        ["fit", DEMO_DATA, "--out", str(run)],
        ["evaluate", str(run), DEMO_DATA],
        ["embed", str(run), DEMO_DATA, "--out", str(out / "embedded.csv")],
        ["views", str(run), DEMO_DATA, "--n", "4", "--out", str(out / "views.csv")],
    ):
        echo(f"\n$ viewsmith {shlex.join(words)}")
        if code := app(args=words, prog_name="viewsmith", standalone_mode=False):
            raise typer.Exit(code)
    echo(f"\nOpen {run / 'report.html'} in a browser. With your own table: viewsmith fit TABLE.csv --out RUN")


app.command(cls=FitCommand)(fit)
for command in (
    *(demo, embed, plot, evaluate, compare, tune, views, discover, symmetries, views_table),
    *(locate, generate, export, push, report, methods),
):
    app.command(cls=ListingCommand)(command)


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit: 0 success, 2 bad input or usage, 1 internal error, 130 interrupted."""
    if sys.stderr is None:  # closed, as by 2>&-
        sys.stderr = open(os.devnull, "w")  # noqa: SIM115, until the process ends
    # Shells leave ~/ as it is within an argument.
    home = f"{Path.home().as_posix()}/"
    given = sys.argv[1:] if arguments is None else arguments
    arguments = [re.sub(r"^(-*[\w.-]+=)?~/", lambda found: f"{found[1] or ''}{home}", each) for each in given]
    warnings.showwarning = partial(show_warning, said=set())
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.simplefilter("ignore", FutureWarning)
    # scikit-learn warns about missing feature names; `load_for` has already put the columns in order.
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    try:
        if not arguments:
            echo(FIRST)
            leave(0)
        code = app(args=arguments, prog_name="viewsmith", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        code, message = explain(error)
        if message:
            print(f"error: {printable(cut(message))}", file=sys.stderr)
    leave(code if isinstance(code, int) else 0)
