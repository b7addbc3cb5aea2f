"""Vectors: tables, sensors, omics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any

import numpy as np

from viewsmith.core.errors import InputError, name_list, pluralize
from viewsmith.core.registry import register
from viewsmith.core.rows import AnyRows, RowSource, as_source
from viewsmith.modalities import checks
from viewsmith.modalities.base import GENERATOR, Modality, Transformation
from viewsmith.modalities.tables import speaks_table, table_of

if TYPE_CHECKING:
    from torch import Tensor, nn

    from viewsmith.core.samples import Rows
    from viewsmith.modalities.vectors.networks import VectorLatents
    from viewsmith.networks.scaling import Scaler


class Vectors(Modality):
    """Rows of numbers, float32 (n, d)."""

    name = "vectors"
    help = "tables, sensors, omics: float or integer features"
    default_views = "neighbors"
    default_encoder = default_encoder_on_gpu = "mlp"
    default_features = "random-relu"
    # The default views (neighbors) need about this many steps, independent of the number of rows.
    steps = steps_on_gpu = 2000
    defaults = MappingProxyType(
        GENERATOR
        | {"kernel": "cauchy", "simclr_dims": (32,), "directions": False, "nu": 1.0}
        | {"generator_learning_rate": 4e-3, "noise_schedule": "cosine", "strength": 1.0}
    )
    on_top = False
    named_features = True
    preset_suffix = ""

    def dtype_on_disk(self, shape: Sequence[int], dtype: Any) -> Any:
        """float32 for rows of numbers; not of letters, which have 8 bits."""
        return np.dtype(np.float32) if len(shape) == 2 and dtype != np.uint8 else None

    def check(self, x: np.ndarray, source_name: str = "the data") -> None:
        """Accept any array of numbers; its rows are flattened."""

    def read(
        self, X: Any, *, row_shape: Sequence[int] | None = None, impute: Any = "none", estimator: Any = None
    ) -> AnyRows:
        from sklearn.utils.validation import validate_data

        source = as_source(X)
        if source is not None:
            return self._read_source(source, row_shape, impute, estimator)
        X = _table_or_rows(X, row_shape is None, impute, estimator)
        if (table := table_of(X)) is not None:
            estimator.n_features_in_ = len(table.roles)
            estimator.feature_names_in_ = np.array(list(table.roles), dtype=object)
            return X
        checks.check_container(X)
        empty = speaks_table(X) and 0 in X.shape
        if empty or not (speaks_table(X) or hasattr(X, "tocsr")):
            X = checks.to_rows(np.empty(X.shape) if empty else X)[0]
            if X.ndim > 2 and estimator.modality == self.name:
                X = X.reshape(len(X), -1)
        try:
            with np.errstate(over="ignore"):  # checked below
                rows = validate_data(
                    estimator,
                    X,
                    reset=row_shape is None,
                    accept_sparse="csr",
                    dtype=np.float32,
                    ensure_all_finite=False,
                    ensure_min_samples=2 if row_shape is None else 1,
                )
        except ValueError as error:  # in the words of scikit-learn, whose checks of estimators expect them
            raise error if isinstance(error, InputError) else InputError(str(error)) from error
        rows = np.ascontiguousarray(rows.toarray() if hasattr(rows, "toarray") else rows)
        names = getattr(estimator, "feature_names_in_", None)
        # Values of float64 can be too large for float32.
        values = X if isinstance(X, np.ndarray) else rows
        columns = None if names is None else [str(n) for n in names]
        checks.check_finite(values, columns, impute)
        if row_shape is None and not hasattr(X, "tocsr"):
            checks.warn_lost_digits(np.asarray(X).reshape(len(X), -1), columns)
        return rows

    def _read_source(
        self, source: RowSource, row_shape: Sequence[int] | None, impute: Any, estimator: Any
    ) -> RowSource:
        """Rows that are not read as a whole, with the checks of those that are."""
        d = source.shape[1]
        if row_shape is None:
            estimator.n_features_in_ = d
            estimator.__dict__.pop("feature_names_in_", None)  # of an earlier fit on a DataFrame
        elif d != row_shape[0]:
            raise InputError(
                f"{source.name} has {pluralize(d, 'feature')} per row, but the model was fitted on {row_shape[0]}"
            )
        checks.check_finite(source, None, impute, source.name)
        return source

    def from_file(self, x: AnyRows, names: list[str] | None, impute: Any, source_name: str) -> AnyRows:
        if table_of(x) is not None:
            return x
        source = as_source(x, source_name, always=True)  # a memory map is one because its reader meant it to be
        if source is None:
            return checks.as_vectors(np.asarray(x), names, impute, source_name)
        checks.check_finite(source, names, impute, source_name)
        return source

    def check_training_rows(self, x: AnyRows, names: list[str] | None, source_name: str) -> None:
        """Raise InputError for columns without a value; warn about constant columns."""
        if table_of(x) is not None:
            return
        ranges = checks.column_ranges(x)
        empty = np.isnan(ranges[0])
        if empty.any():
            found = [names[i] if names else int(i) for i in np.flatnonzero(empty)]
            raise InputError(
                f"{source_name}: {pluralize(len(found), 'column')} without any value in the train rows: "
                f"{name_list(found)}; leave them out (--drop)"
            )
        checks.warn_columns(x, names, source_name, ranges)

    def transformations(self, row_shape: Sequence[int]) -> Mapping[str, Transformation]:
        return {"sign-flip": lambda x: -x, "column-exchange": lambda x: x[:, ::-1]}

    def input_layer(self, row_shape: Sequence[int]) -> Scaler:
        from viewsmith.networks.scaling import Scaler

        return Scaler(row_shape[0])

    def fit_table(self, layer: Any, raw: Tensor | RowSource, scaling: str, table: Any) -> tuple[str, dict[str, Any]]:
        from viewsmith.modalities.tables.encoder import facts_for_views
        from viewsmith.modalities.tables.scaling import fit_scaler

        return fit_scaler(layer, raw, scaling, table), facts_for_views(table)  # type: ignore[arg-type]

    def scaled(self, raw: Tensor | RowSource, layer: Any) -> Rows:
        from viewsmith.core.samples import Samples

        return Samples(raw, layer) if isinstance(raw, RowSource) else layer(raw)

    def in_data_units(self, sigma: Tensor, layer: Any) -> Tensor:
        return sigma * layer.scale * layer.varies

    def raw_features(self, rows: np.ndarray, layer: Any) -> dict[str, np.ndarray]:
        import torch

        from viewsmith.core.samples import shared_tensor

        with torch.no_grad():
            return {"scaled values": layer(shared_tensor(rows).to(layer.center.device)).cpu().numpy()}

    def latents(self, row_shape: Sequence[int], statistics: Mapping[str, Any], encoder: nn.Module) -> VectorLatents:
        from viewsmith.modalities.vectors.networks import VectorLatents
        from viewsmith.networks.scaling import PrincipalAxes

        # The encoder uses only the coordinates of samples along its principal axes, so only these are generated.
        axes = next((m for m in encoder.modules() if isinstance(m, PrincipalAxes)), None)
        return VectorLatents(row_shape[0], axes)

    def denoiser(self, kind: str, latents: VectorLatents, row_shape: Sequence[int], condition: int) -> nn.Module:
        from viewsmith.modalities.vectors.networks import PublishedVectorDenoiser, VectorDenoiser

        return (PublishedVectorDenoiser if kind == "published" else VectorDenoiser)(latents.n_latents, condition)


def _table_or_rows(X: Any, fresh: bool, impute: Any, estimator: Any) -> Any:
    """Samples with the rows of a table encoded, by a new encoder or the fitted one; plain columns in their order."""
    fitted = None if fresh else getattr(estimator, "table_", None)
    if fitted is None and table_of(X) is None and not speaks_table(X):
        return X
    from viewsmith.modalities.tables import encoder as tables  # imports pandas

    if fresh:
        return tables.read_new(X, estimator.columns, estimator.strict, impute)
    if fitted is not None:
        return tables.read_later(X, fitted)
    if table_of(X) is not None:
        raise InputError("the rows are of a table with categories, text or dates, but the model was fitted on numbers")
    if hasattr(estimator, "feature_names_in_"):
        return tables.by_name(X, [str(name) for name in estimator.feature_names_in_])
    return tables.by_stored_name(X, estimator.facts_.feature_names, estimator.n_features_in_)


register("modality", Vectors.name, help=Vectors.help)(Vectors)
