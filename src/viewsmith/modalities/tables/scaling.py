"""Scaling of the encoded rows of a table."""

import torch
from torch import Tensor

from viewsmith.modalities.tables.columns import Category, Number
from viewsmith.modalities.tables.encoder import TableEncoder
from viewsmith.networks.scaling import Scaler, Scaling


@torch.no_grad()
def fit_scaler(layer: Scaler, raw: Tensor, scaling: Scaling, table: TableEncoder) -> str:
    """Fit the input layer to encoded rows, (n, d), and weigh their columns; returns the scaling that is used.

    `scaling` is that of numbers (`Scaler`): "auto" looks at them alone. Without scaling nothing is weighed.

    - category: two rows differ in two indicators or in none; divided by sqrt(2) each, the distance is 1 or 0
    - text: all axes are divided by the root of the sum of their variances
    - date: its k features are standardized and divided by sqrt(k)
    - an indicator of gaps is not divided: the distance is 1 or 0
    """
    numbers = [a for column, (a, _) in zip(table.columns, table.spans, strict=True) if isinstance(column, Number)]
    of_numbers = Scaler(len(numbers))
    used = of_numbers.fit(raw[:, numbers], scaling) if numbers else ("standard" if scaling == "auto" else scaling)
    layer.fit(raw, "none" if used == "none" else "standard")
    if used == "none":
        return used
    deviation = layer.scale.clone()
    for column, (first, end) in zip(table.columns, table.spans, strict=True):
        if isinstance(column, Category):
            layer.scale[first:end] = 2**0.5
            continue
        if column.gaps:
            end -= 1
            layer.scale[end] = 1.0
        if column.role == "text":
            varies = layer.varies[first:end]
            total = (deviation[first:end] * varies).square().sum().sqrt()
            layer.scale[first:end] = torch.where(total > 0, total, 1.0)
        elif column.role == "date":
            layer.scale[first:end] = deviation[first:end] * max(1, int(layer.varies[first:end].sum())) ** 0.5
    for name in ("center", "scale", "varies"):
        getattr(layer, name)[numbers] = getattr(of_numbers, name)
    return str(used)
