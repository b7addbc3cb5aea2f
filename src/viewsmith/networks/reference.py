"""A reference to a module that belongs to another module."""

from __future__ import annotations

from typing import Generic, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


class Reference(Generic[M]):
    """Holds a module without making it a submodule.

    A module that uses parts of another one, such as the encoder of the framework, holds them in a reference. They are
    then not part of its parameters and state, so they are not saved, moved or trained twice.

    Attributes
    ----------
    module : nn.Module
    """

    def __init__(self, module: M) -> None:
        self.module = module
