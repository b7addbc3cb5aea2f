"""The command push."""

from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.core.hub import repository_of


@options.with_flags("threads", "debug")
def push(
    run: options.Run,
    to: Annotated[str, typer.Argument(metavar="TO", help="hf://OWNER/NAME (extra hub), or a new folder.")],
    private: Annotated[bool, typer.Option("--private", help="A new repository is private.")] = False,
    license_: Annotated[str | None, typer.Option("--license", metavar="NAME", help="Of the weights.")] = None,
) -> None:
    """Publish RUN on the Hugging Face Hub, with a card, or write such a repository to a folder."""
    early.check_paths(run=run)
    repository_of(to)
    from viewsmith.workflows.hub import push as publish

    with writing(Path(to)):
        echo(publish(run, to, private=private, license=license_))
