"""The command evaluate."""

from typing import Annotated, Any

import typer

from viewsmith.cli import early, options
from viewsmith.cli.errors import echo, writing
from viewsmith.cli.models import write_run_report
from viewsmith.core.errors import InputError


@options.with_flags("labels", "target", "stream", "cache", "threads", "debug")
def evaluate(
    run: options.Run,
    data: options.Data,
    read: dict[str, Any],
    json_: options.Json = False,
    umap: Annotated[bool, typer.Option("--umap", help="Also compare with UMAP (extra viz).")] = False,
    protocols: Annotated[str | None, typer.Option(help="Comma-separated; default: all.")] = None,
    label: options.LabelColumns = None,
) -> None:
    """Compare the representation with raw and fixed features, PCA and the untrained encoder; refresh the report."""
    early.check_paths(run=run, data=data, read=read)
    scores = options.names(protocols) if protocols else None
    early.check_listed(early.PROTOCOLS, "protocol", scores or ())
    results: dict[str | None, dict[str, Any]] = {}
    shown: tuple[Any, Any] | None = None
    for column in label or (None,):
        given = {**read, "label": column}
        found = early.data_of_run(run, data, given, labeled=True)
        model, dataset = early.model_and_data(run, data, given, found, labeled=True)
        from viewsmith.estimator.inputs import labels_used
        from viewsmith.evaluation.compare import compare

        sample = dataset.in_memory()
        result = compare(model, sample, umap=umap, protocols=scores, label_used=labels_used(model))
        if len(sample.x) < len(dataset.x):
            result["rows"]["sampled_from"] = len(dataset.x)
        results[column], shown = result, shown or (model, sample)
    from viewsmith.core.files import write_json_atomic
    from viewsmith.evaluation.compare import format_table
    from viewsmith.reports.verdict import caveat, verdict
    from viewsmith.training.run import RunFolder

    first, *others = results.values()
    if others:  # the report shows the first label
        first = first | {"labels_scored": results}
    with writing(RunFolder(run).evaluation):
        write_json_atomic(RunFolder(run).evaluation, first)
    with writing(RunFolder(run).report):
        write_run_report(run, figures=_figures(*shown) if shown else ())
    if json_:
        echo(RunFolder(run).evaluation.read_text(encoding="utf-8").rstrip("\n"))
        return
    for column, scored in results.items():
        heading = f"{column}\n\n" if others else ""
        limits = caveat(None if scored.get("target") == "number" else scored["rows"]["test"])
        echo(f"{heading}{format_table(scored)}\n\n{verdict(scored)}\n{limits}")


def _figures(model: Any, dataset: Any) -> list[Any]:
    """Maps and galleries of a report, or none, with a warning, if these data have none."""
    from viewsmith.core.errors import warn

    try:
        figures: list[Any] = model.figures(dataset)
        return figures
    except InputError as error:
        warn(f"no maps and galleries in the report: {error}")
        return []
