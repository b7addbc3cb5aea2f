"""Ground floor: what a method is, random streams, several processes, files, errors."""

from viewsmith.core.errors import InputError, MissingExtra, TrainingError
from viewsmith.core.method import Batch, Method, Optimizer, Phase, Update
from viewsmith.core.random import derive_seed, stream

__all__ = [
    "Batch",
    "InputError",
    "Method",
    "MissingExtra",
    "Optimizer",
    "Phase",
    "TrainingError",
    "Update",
    "derive_seed",
    "stream",
]
