"""Addresses of repositories of the Hub."""

from pathlib import Path

import pytest

from refusals import refusal
from viewsmith.data.places import downloaded, repository_of


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("hf://you/name", ("you/name", None)),
        ("hf://you/na.me-1@v1.0", ("you/na.me-1", "v1.0")),
        (Path("hf://you/name@main"), ("you/name", "main")),
        ("runs/hf:", None),
        (Path("you/name"), None),
    ],
)
def test_an_address_has_a_name_and_a_revision(address, expected):
    assert repository_of(address) == expected


@pytest.mark.parametrize("address", ["hf://name", "hf://a/b/c", "hf://../x/y", "hf://a/b@", "hf:a/b"])
def test_other_addresses_are_refused(address):
    assert "expected hf://OWNER/NAME, or a folder" in refusal(repository_of, address)


def test_the_revision_is_downloaded(monkeypatch):
    library = pytest.importorskip("huggingface_hub")
    asked = []
    monkeypatch.setattr(library, "snapshot_download", lambda name, **options: asked.append((name, options)) or "here")
    assert downloaded("hf://you/name@v1") == Path("here") and downloaded("run") == Path("run")
    ((name, options),) = asked
    assert name == "you/name" and options["revision"] == "v1"
    assert not any(pattern.endswith((".bin", ".pt", ".pkl", "*")) for pattern in options["allow_patterns"])
