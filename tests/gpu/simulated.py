"""A simulated accelerator: its tensors compute on the CPU, and refuse what a GPU refuses.

An operation that mixes devices raises, as on a GPU; so does a generator of another device. While the simulation is
strict, everything raises for which a CPU would wait for a GPU: copies from one device to the other, values read by
Python, shapes that depend on values. Two things are not simulated: autocast and transforms of `torch.func`, which do
not work with wrapped tensors.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any
from unittest import mock

import torch
from synchronization import WAITING, Synchronized
from torch import Tensor
from torch.overrides import TorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode, return_and_correct_aliasing

NAME = "simulated"
aten = torch.ops.aten
TO_COPY, COPY = aten._to_copy.default, aten.copy_.default
INDEXING = {
    *(aten.index.Tensor, aten._unsafe_index.Tensor, aten.index_put.default, aten.index_put_.default),
    *(aten._unsafe_index_put.default, aten._index_put_impl_.default),
}
CPUGenerator = torch.Generator


class MixedDevices(RuntimeError):
    """Tensors or generators of different devices meet in an operation."""


class Generator(CPUGenerator):
    """A generator of the CPU that belongs to a given device."""

    def __new__(cls, device: Any = "cpu") -> Generator:
        made = super().__new__(cls, "cpu")
        made.place = torch.device(device)
        return made

    def __init__(self, device: Any = "cpu") -> None:
        pass

    @property
    def device(self) -> torch.device:
        return self.place


class DeviceTensor(Tensor):
    """A tensor on the simulated device, which holds one of the CPU."""

    __torch_function__ = torch._C._disabled_torch_function_impl

    @staticmethod
    def __new__(cls, held: Tensor, requires_grad: bool = False) -> DeviceTensor:
        made = Tensor._make_wrapper_subclass(
            cls,
            held.shape,
            strides=held.stride(),
            storage_offset=held.storage_offset(),
            dtype=held.dtype,
            device=torch.device(NAME, 0),
            requires_grad=requires_grad,
        )
        made.held = held
        return made

    def __repr__(self) -> str:
        return f"DeviceTensor({self.held})"

    def __deepcopy__(self, memo: dict[int, Any]) -> DeviceTensor:
        if id(self) not in memo:
            copied = DeviceTensor(self.held.detach().clone()).requires_grad_(self.requires_grad)
            copied.__dict__.update({name: value for name, value in self.__dict__.items() if name == "_is_param"})
            memo[id(self)] = copied
        return memo[id(self)]

    @classmethod
    def __torch_dispatch__(cls, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        return SIMULATION.compute(func, args, kwargs or {}, flat(args, kwargs or {}))


def flat(args: Any, kwargs: dict[str, Any]) -> list[Any]:
    """Arguments of an operation, those in lists included; there are no lists of lists, so that torch's trees, which
    take half of the time of a simulation, are not needed."""
    found = [*args, *kwargs.values()]
    for each in found:
        if each.__class__ in (list, tuple):
            found = [*found, *each]
    return found


def mapped(function: Any, value: Any) -> Any:
    """A value, or a list or tuple of values, with a function of each."""
    return value.__class__(map(function, value)) if value.__class__ in (list, tuple) else function(value)


def on_device(device: Any) -> bool:
    """Whether this is the simulated device or its name."""
    return device is not None and torch.device(device).type == NAME


class Simulation:
    """What the two modes share: whether waiting raises, and the devices of generators that are in use."""

    def __init__(self) -> None:
        self.strict = False
        self.generators: list[str] = []

    def wait(self, reason: str) -> None:
        """Raise if waiting for the device is forbidden at present."""
        if self.strict:
            raise Synchronized(f"{reason}: the CPU waits for the device")

    def check(self, func: Any, args: Any, kwargs: Any, given: list[Any]) -> bool:
        """Whether a tensor of those `given` to an operation is on the device; raises MixedDevices."""
        tensors = [each for each in given if isinstance(each, Tensor)]
        there = [each for each in tensors if isinstance(each, DeviceTensor)]
        # Numbers of the CPU, tensors without dimensions, are arguments of the operation, on a GPU too.
        here = [each for each in tensors if not isinstance(each, DeviceTensor) and each.dim()]
        if func in INDEXING:
            if there and not isinstance(args[0], DeviceTensor):
                raise MixedDevices(f"{func}: a tensor of the CPU with indices or values of the device")
            if there and len(args) > 2 and any(args[2] is each for each in here):
                raise MixedDevices(f"{func}: values of the CPU for a tensor of the device")
            if there and here:
                self.wait(f"{func}: indices of the CPU are copied")
        elif there and here and func not in (TO_COPY, COPY):
            shapes = [[tuple(x.shape) for x in some] for some in (there, here)]
            raise MixedDevices(f"{func}: {shapes[0]} on the device with {shapes[1]} on the CPU")
        if any(isinstance(each, CPUGenerator) for each in given):
            expected = NAME if there or on_device(kwargs.get("device")) else "cpu"
            used = self.generators[-1] if self.generators else "cpu"
            if used != expected:
                raise MixedDevices(f"{func}: a generator of {used} for tensors of {expected}")
        return bool(there)

    def compute(self, func: Any, args: Any, kwargs: Any, given: list[Any]) -> Any:
        """Result of an operation whose tensors, or whose result, are on the device."""
        there = self.check(func, args, kwargs, given)
        target = kwargs.get("device")
        plain = [mapped(_held, each) for each in args]
        named = {name: mapped(_held, each) for name, each in kwargs.items()}
        if func is TO_COPY:
            named.pop("device", None)
            to = on_device(target) if target is not None else there
            if to != there:
                self.wait("a copy from one device to the other")
            made = func(plain[0], **named)
            return DeviceTensor(made) if to else made
        if func is COPY:
            if isinstance(args[0], DeviceTensor) != isinstance(args[1], DeviceTensor):
                self.wait("a copy from one device to the other")
            func(*plain, **named)
            return args[0]
        if func in WAITING and there:
            self.wait(str(func))
        if target is not None:
            named["device"] = torch.device("cpu") if on_device(target) else target
        made = func(*plain, **named)
        if func is aten._local_scalar_dense.default or not (there or on_device(target)):
            return made
        return return_and_correct_aliasing(func, args, kwargs, mapped(_wrapped, made))


def _held(x: Any) -> Any:
    return x.held if isinstance(x, DeviceTensor) else x


def _wrapped(x: Any) -> Any:
    return DeviceTensor(x) if isinstance(x, Tensor) and not isinstance(x, DeviceTensor) else x


SIMULATION = Simulation()


class _Operations(TorchDispatchMode):
    """Operations that make tensors on the device, and those that draw."""

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = kwargs or {}
        given = flat(args, kwargs)
        if on_device(kwargs.get("device")) or any(isinstance(x, (DeviceTensor, CPUGenerator)) for x in given):
            return SIMULATION.compute(func, args, kwargs, given)
        return func(*args, **kwargs)


class _Functions(TorchFunctionMode):
    """Functions that never reach an operation, or that lose what they were given before."""

    def __torch_function__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        kwargs = dict(kwargs or {})
        if func is Tensor.tolist and isinstance(args[0], DeviceTensor):
            SIMULATION.wait("tolist")
            return args[0].held.tolist()
        if func in (torch.tensor, torch.as_tensor, torch.asarray) and on_device(kwargs.get("device")):
            target = kwargs.pop("device")
            return func(*args, **kwargs).to(target)
        if func is Tensor.new_tensor and isinstance(args[0], DeviceTensor):
            return torch.tensor(args[1], **({"dtype": args[0].dtype} | kwargs)).to(args[0].device)
        if func in (Tensor.__getitem__, Tensor.__setitem__) and isinstance(args[0], DeviceTensor):
            index = args[1] if isinstance(args[1], tuple) else (args[1],)
            # A list would become a tensor within the function, where modes do not see it.
            made = tuple(torch.tensor(i).to(args[0].device) if isinstance(i, list) else i for i in index)
            args = (args[0], made if isinstance(args[1], tuple) else made[0], *args[2:])
        given = [each for each in (*args, *kwargs.values()) if isinstance(each, Generator)]
        if not given:
            return func(*args, **kwargs)
        SIMULATION.generators.append(given[0].device.type)
        try:
            return func(*args, **kwargs)
        finally:
            SIMULATION.generators.pop()


class _Backend:
    """What torch asks of the module of a device."""

    def is_initialized(self) -> bool:
        return True

    def is_available(self) -> bool:
        return True

    def current_device(self) -> int:
        return 0

    def device_count(self) -> int:
        return 1

    def _is_in_bad_fork(self) -> bool:
        return False

    def manual_seed_all(self, seed: int) -> None:
        pass

    def get_amp_supported_dtype(self) -> list[torch.dtype]:
        return [torch.bfloat16]

    def is_autocast_enabled(self) -> bool:
        return False

    def get_rng_state(self, device: Any = None) -> Tensor:
        return torch.zeros(8, dtype=torch.uint8)

    def set_rng_state(self, state: Tensor, device: Any = None) -> None:
        pass


def register_backend() -> None:
    """Make the name of the device known to torch, for as long as the process runs, before its first backward pass."""
    if torch._C._get_privateuse1_backend_name() != NAME:
        from torch.utils.backend_registration import _setup_privateuseone_for_python_backend  # experimental

        _setup_privateuseone_for_python_backend(NAME, backend_module=_Backend())


@contextlib.contextmanager
def simulated_device() -> Iterator[torch.device]:
    """The device, which exists within the context."""
    register_backend()
    with mock.patch.object(torch, "Generator", Generator), _Operations(), _Functions():
        yield torch.device(NAME, 0)


@contextlib.contextmanager
def no_waiting() -> Iterator[None]:
    """Within the context, what makes the CPU wait for the device raises Synchronized."""
    SIMULATION.strict = True
    try:
        yield
    finally:
        SIMULATION.strict = False
