"""A module that belongs to another one."""

from __future__ import annotations

from typing import Generic, TypeVar

from torch import nn

M = TypeVar("M", bound=nn.Module)


class Reference(Generic[M]):
    """Holds a module without making it a submodule.

    A module that uses another one's parts, such as the encoder of the framework, keeps them in a reference: its own
    parameters and state do not include them, so that they are not saved, moved or trained a second time.

    Attributes
    ----------
    module : nn.Module
    """

    def __init__(self, module: M) -> None:
        self.module = module
