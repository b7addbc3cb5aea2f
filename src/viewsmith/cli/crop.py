"""The command crop."""

from pathlib import Path
from typing import Annotated, Any

import typer

from viewsmith.cli import early
from viewsmith.cli.locate import MaxQ, N, Unjudged, find, of_run
from viewsmith.cli.options import Data, Run


@of_run
def crop(
    run: Run,
    data: Data,
    read: dict[str, Any],
    out: Annotated[Path, typer.Option(metavar="FOLDER", help="A new folder of images; or .npz; for sequences .fasta")],
    n: N = 1,
    max_q: MaxQ = None,
    unjudged: Unjudged = False,
) -> None:
    """Write crops of images or windows of sequences at the locations that a run of crl-tac, or discover, finds."""
    early.check_paths(run=run, data=data, read=read, file=out)
    find(run, data, read, out, n, max_q, unjudged, crops=True)
