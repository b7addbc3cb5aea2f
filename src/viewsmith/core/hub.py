"""Repositories of the Hugging Face Hub, ``hf://OWNER/NAME``: names and downloads."""

import os
import re
from pathlib import Path

from viewsmith.core.errors import InputError, error_text, one_line, require

_ADDRESS = re.compile(r"hf:/{1,2}([\w.-]+/[\w.-]+?)(?:@([\w.-]+))?")  # a Path has made one slash of two
#: Files that are downloaded: nothing that could be executed or unpickled.
PATTERNS = ("*.safetensors", "*.toml", "*.json", "*.jsonl", "*.md")


def repository_of(address: str | os.PathLike[str]) -> tuple[str, str | None] | None:
    """Name and revision of the repository ``hf://OWNER/NAME`` or ``hf://OWNER/NAME@REVISION``; None for a path."""
    text = os.fspath(address)
    if not text.startswith("hf:"):
        return None
    found = _ADDRESS.fullmatch(text)
    if found is None:
        raise InputError(f"the repository is {one_line(text, 80)!r}, expected hf://OWNER/NAME, or a folder")
    return found[1], found[2]


def downloaded(address: str | os.PathLike[str]) -> Path:
    """The folder of a repository, downloaded once, or the path itself."""
    repository = repository_of(address)
    if repository is None:
        return Path(address)
    require("huggingface_hub", "hub", "loading from the Hub")
    from huggingface_hub import snapshot_download

    name, revision = repository
    try:
        return Path(snapshot_download(name, revision=revision, allow_patterns=list(PATTERNS), library_name="viewsmith"))
    except Exception as error:  # of the network, the server and the account
        raise InputError(f"hf://{name} cannot be read ({one_line(error_text(error), 200)})") from error
