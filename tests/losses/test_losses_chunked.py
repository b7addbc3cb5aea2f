"""Chunked losses equal the plain ones and never store the full similarity matrix."""

import itertools

import pytest
import torch
from torch.utils._python_dispatch import TorchDispatchMode

from cases import covering
from drawn import normal
from viewsmith.losses import moco_info_nce, nt_xent
from viewsmith.losses import numerics as chunked
from viewsmith.losses.numerics import CAUCHY, EXPONENTIAL, Excluded, by_rows, similarity_sums

TOLERANCE = {torch.float64: {"rtol": 1e-10, "atol": 1e-10}, torch.float32: {"rtol": 1e-5, "atol": 1e-5}}


def leaves(rows, width=6, dtype=torch.float64, seed=0):
    z = normal(2, rows, width, dtype=dtype, seed=seed)
    return z[0].requires_grad_(), z[1].requires_grad_()


def gradients(losses, *inputs):
    return torch.autograd.grad((torch.linspace(0.5, 2, len(losses), dtype=losses.dtype) * losses).mean(), inputs)


def equal(one, other, inputs):
    torch.testing.assert_close(one, other, **TOLERANCE[one.dtype])
    for found, expected in zip(gradients(one, *inputs), gradients(other, *inputs), strict=True):
        torch.testing.assert_close(found, expected, **TOLERANCE[one.dtype])


class Largest(TorchDispatchMode):
    """Records the number of elements of the largest tensor that is created."""

    elements = 0

    def __torch_dispatch__(self, function, types, args=(), kwargs=None):
        made = function(*args, **(kwargs or {}))
        for tensor in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(tensor, torch.Tensor):
                # An expanded view has many elements and takes no memory.
                self.elements = max(self.elements, tensor.untyped_storage().nbytes() // tensor.element_size())
        return made


def ids_of(kind, rows):
    first = torch.arange(rows) % (rows - rows // 4)
    return {"none": None, "same": (first, first), "other": (first, first.roll(2))}[kind]


SIZES = ((7, 3), (8, 4), (5, 64), (300, 256))
KERNELS = (("cosine", 0.2), ("cauchy", 1.0), ("cauchy", 0.4))
DTYPES = (torch.float64, torch.float32)


@pytest.mark.parametrize(
    ("size", "kernel", "negatives", "ids", "dtype", "stored"),
    covering(
        itertools.product(SIZES, KERNELS, ("all", "cross"), ("none", "same", "other"), DTYPES, (0, 10**6)), drawn=28
    ),
)
def test_chunked_equals_plain(size, kernel, negatives, ids, dtype, stored, monkeypatch):
    (rows, tile), (kernel, temperature) = size, kernel
    monkeypatch.setattr(chunked, "TILE_CPU", tile)
    monkeypatch.setattr(chunked, "MAX_STORED", stored)
    z = leaves(rows, dtype=dtype)
    options = {"kernel": kernel, "temperature": temperature, "negatives": negatives, "ids": ids_of(ids, rows)}
    equal(nt_xent(*z, form="chunked", **options), nt_xent(*z, form="plain", **options), z)


def test_auto_uses_the_chunked_form_only_for_large_batches():
    # Only the plain form can be differentiated twice.
    def twice(rows, **options):
        z = leaves(rows, width=2, dtype=torch.float32)
        gradient = torch.autograd.grad(nt_xent(*z, **options).sum(), z[0], create_graph=True)[0]
        return torch.autograd.grad(gradient.square().sum(), z[0])[0]

    assert twice(100).isfinite().all()
    assert twice(300, negatives="cross").isfinite().all()
    with pytest.raises(RuntimeError, match="differentiated once"):
        twice(600, negatives="cross")
    assert twice(300, form="plain").isfinite().all()
    with pytest.raises(RuntimeError, match="differentiated once"):
        twice(300)


@pytest.mark.parametrize(("negatives", "ids"), [("all", "none"), ("cross", "same"), ("all", "other")])
@pytest.mark.parametrize(("kernel", "temperature"), [("cosine", 0.5), ("cauchy", 1.0), ("cauchy", 0.5)])
def test_no_tensor_grows_quadratically_with_the_batch(kernel, temperature, negatives, ids, monkeypatch):
    monkeypatch.setattr(chunked, "TILE_CPU", 64)
    monkeypatch.setattr(chunked, "MAX_STORED", 0)
    rows, width = 600, 4
    z = leaves(rows, width)
    options = {"kernel": kernel, "temperature": temperature, "negatives": negatives, "ids": ids_of(ids, rows)}
    with Largest() as largest:
        nt_xent(*z, **options, form="chunked").mean().backward()
    in_logarithms = kernel == "cauchy" and temperature != 1
    assert 64**2 <= largest.elements <= (2 * rows * 64 if in_logarithms else 2 * rows * (width + 2))
    with Largest() as largest:
        nt_xent(*z, **options, form="plain")
    assert largest.elements >= rows**2


def test_a_queue_creates_no_large_tensor_and_gets_no_gradient(monkeypatch):
    monkeypatch.setattr(chunked, "TILE_CPU", 64)
    queries, keys = leaves(100, 4)
    queue = normal(500, 4)
    with Largest() as largest:
        moco_info_nce(queries, keys.detach(), queue).sum().backward()
    assert largest.elements <= 64**2
    assert queue.grad is None and queries.grad.abs().min() > 0


@pytest.mark.parametrize("stored", [0, 10**6], ids=["recomputed", "stored"])
def test_a_second_backward_pass_gives_the_same_gradient(stored, monkeypatch):
    monkeypatch.setattr(chunked, "MAX_STORED", stored)
    z = leaves(40)
    for kernel in ("cosine", "cauchy"):
        loss = nt_xent(*z, kernel=kernel, form="chunked").sum()
        one, other = (torch.autograd.grad(loss, z, retain_graph=True)[0] for _ in range(2))
        assert torch.equal(one, other)


# --- numerical methods


@pytest.mark.parametrize("similarity", ["exponential", "cauchy"])
def test_similarity_sums_by_finite_differences(similarity):
    kernel = EXPONENTIAL if similarity == "exponential" else CAUCHY
    excluded = Excluded((1, -3), torch.tensor([1, 2, 3, 4, 5]), torch.tensor([2, 3, 4, 5, 6]), torch.arange(7) - 1)
    a, c = normal(5, 3).abs().requires_grad_(), normal(7, 3, seed=1).abs().requires_grad_()

    def sums(a, c):
        return similarity_sums(a, c, kernel, excluded, tile=2)

    values = kernel.value((a @ c.T).detach())
    zeroed = torch.zeros(5, 7, dtype=torch.bool)
    for i in range(5):
        for j in range(7):
            zeroed[i, j] = j - i in (1, -3) or j - 1 in (i + 1, i + 2)
    torch.testing.assert_close(sums(a, c), values.masked_fill(zeroed, 0).sum(1))
    assert torch.autograd.gradcheck(sums, (a, c))


@pytest.mark.parametrize("chunk", [1, 3, 8, 100])
def test_by_rows_equals_the_equation(chunk):
    a, b = leaves(8, 3)
    c, constant = normal(5, 3, seed=1).requires_grad_(), normal(8, seed=2)

    def equation(start, a, b, constant, c):
        numbers = torch.arange(start, start + len(a), dtype=a.dtype)
        return ((a @ c.T).exp().sum(1) + (b * c[0]).sum(1)) * numbers + constant

    found = by_rows(equation, (a, b, constant), (c,), chunk=chunk)
    equal(found, equation(0, a, b, constant, c), (a, b, c))
    with pytest.raises(RuntimeError, match="differentiated once"):
        torch.autograd.grad(by_rows(equation, (a, b, constant), (c,), chunk=chunk).sum(), a, create_graph=True)


# --- two processes
