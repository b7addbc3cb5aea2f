"""Rates of views that are "auto": a transformation is used if it keeps samples among the samples of the data.

A view maker declares such options by the trait `symmetry`, as in ``symmetry={"flip": "mirror"}``: the rate of which
option is that of which transformation in `viewsmith.evaluation.symmetries`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from viewsmith.core import distributed
from viewsmith.core.errors import InputError
from viewsmith.core.registry import Entry
from viewsmith.estimators.build.plan import TrainingData

RATE = 0.5  # of a transformation that is used, as published
FEWEST_GROUPS = 10  # whole groups are held out, if there are so many


def resolve_rates(
    views: Sequence[Entry], options: Mapping[str, Any], data: TrainingData
) -> tuple[dict[str, float], dict[str, dict[str, Any]]]:
    """Rates of the options that are "auto", and for each transformation what its test has shown.

    With too few samples for a test, transformations are used as published, and the reason is in the result.
    """
    from viewsmith.evaluation.symmetries import TRANSFORMATIONS, symmetries

    asked = {
        option: name
        for view in views
        for option, name in view.trait("symmetry", {}).items()
        if options.get(option) == "auto"
    }
    groups = data.group_codes
    if groups is not None and groups.max() + 1 < FEWEST_GROUPS:
        groups = None
    rates: dict[str, float] = {}
    tests: dict[str, dict[str, Any]] = {}
    for option, name in asked.items():
        transformation = {name: TRANSFORMATIONS[data.domain.name][name]}
        try:
            (test,) = symmetries(data.rows, data.domain.name, transformation, groups=groups, seed=data.seed)
        except InputError as error:
            rates[option], tests[name] = RATE, {"rate": RATE, "verdict": f"{name}: on, not tested: {error}"}
            continue
        # All processes of a training have to make the same views.
        used = distributed.broadcast_flag(test.on_the_data, data.device)
        rates[option] = RATE if used else 0.0
        tests[name] = {
            "rate": rates[option],
            "told_apart": round(test.told_apart, 3),
            "distance_ratio": round(test.ratio, 3),
            "verdict": f"{name}: {'on' if used else 'off'}, told apart in {test.told_apart:.0%} of held-out samples, "
            f"distance ratio {test.ratio:.2f} (off above 1.3)",
        }
    return rates, tests
