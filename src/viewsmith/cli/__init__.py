"""The command line: fit, embed, evaluate, views, generate, export, report, methods."""

from __future__ import annotations

import json
import sys
import traceback
import warnings
from pathlib import Path
from typing import Annotated

import typer

from viewsmith.cli.errors import cut, explain, show_warning, writing
from viewsmith.cli.options import (
    Data,
    Debug,
    Features,
    ImageSize,
    Label,
    Labels,
    Run,
    Threads,
    check_only,
    make_estimator,
    names,
    set_threads,
)
from viewsmith.core.errors import InputError

app = typer.Typer(
    help="Contrastive representations whose views are learned or generated.",
    add_completion=False,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
)


@app.command()
def fit(
    data: Data,
    out: Annotated[Path, typer.Option(metavar="RUN", help="Folder for the run.")],
    method: Annotated[
        str | None, typer.Option(help="contrastive (the default), pinda, diffaug, crl-tac, metaug or genview")
    ] = None,
    bank: Annotated[
        str | None, typer.Option(metavar="BANK", help="Views that `viewsmith generate` made (genview).")
    ] = None,
    features: Features = None,
    framework: Annotated[
        str | None, typer.Option(help="simclr (the default), moco, moco-v3, byol, simsiam, swav or dino")
    ] = None,
    encoder: Annotated[
        str | None, typer.Option(help="mlp; cnn, resnet18, resnet50, crl-cnn, split-alexnet, timm:NAME; cnn, hyena")
    ] = None,
    views: Annotated[str | None, typer.Option(help="View makers joined by +.")] = None,
    epochs: Annotated[str | None, typer.Option(metavar="N", help="Passes over the rows, or auto.")] = None,
    minutes: Annotated[float | None, typer.Option(help="Stop training at this age.")] = None,
    batch_size: Annotated[int | None, typer.Option(help="Rows per step.")] = None,
    preset: Annotated[str | None, typer.Option(help="paper: the published settings.")] = None,
    seed: Annotated[int | None, typer.Option(min=0, help="Same seed, same result; default: 0.")] = None,
    device: Annotated[str | None, typer.Option(help="auto, cpu or cuda")] = None,
    precision: Annotated[str | None, typer.Option(help="32 or bf16")] = None,
    config: Annotated[Path | None, typer.Option(metavar="FILE.toml", help="Options from a file.")] = None,
    set_: Annotated[
        list[str] | None, typer.Option("--set", metavar="KEY=VALUE", help="Any option of the method.")
    ] = None,
    resume: Annotated[bool, typer.Option("--resume", help="Go on with the run in the folder.")] = False,
    label: Label = None,
    labels: Labels = None,
    layer: Annotated[str | None, typer.Option(metavar="NAME", help="Layer of an h5ad file instead of X.")] = None,
    image_size: ImageSize = None,
    domain: Annotated[str | None, typer.Option(help="vectors, images or dna; default: from the data")] = None,
    drop: Annotated[str, typer.Option(metavar="COLS", help="Columns to leave out, comma-separated.")] = "",
    one_hot: Annotated[str, typer.Option(metavar="COLS", help="Text columns to one-hot encode.")] = "",
    impute: Annotated[str | None, typer.Option(help="none or median: what to do with missing values")] = None,
    transductive: Annotated[bool, typer.Option("--transductive", help="Train on all rows.")] = False,
    checkpoint_every: Annotated[float | None, typer.Option(metavar="SECONDS", help="Between checkpoints.")] = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Train on DATA without labels and keep everything in a folder."""
    from viewsmith.core import distributed
    from viewsmith.data import load_dataset
    from viewsmith.workflows.runs import already_finished, data_record, process_group, withdrawn_on_error

    flags = {
        "bank": bank,
        "features": features,
        "framework": framework,
        "encoder": encoder,
        "view_maker": views,
        "epochs": epochs,
        "minutes": minutes,
        "batch_size": batch_size,
        "random_state": seed,
        "impute": impute,
        "device": device,
        "precision": precision,
        "checkpoint_every": checkpoint_every,
    }
    given = {key: value for key, value in flags.items() if value is not None}
    model = make_estimator(method, preset, config, set_ or [], given)
    set_threads(threads)
    dataset = load_dataset(
        data,
        label=label,
        domain=domain if domain is not None or model.domain == "auto" else model.domain,
        drop=names(drop),
        one_hot=names(one_hot),
        impute=model.impute,
        labels=labels,
        layer=layer,
        image_size=image_size,
    )
    if preset is not None:
        model = make_estimator(method, preset, config, set_ or [], given, dataset.domain)
    record = data_record(dataset, transductive)
    if already_finished(model, out, record, resume=resume):
        typer.echo(str(out))
        return
    with process_group(), withdrawn_on_error(out), writing(out):
        y = dataset.fit_labels(transductive) if model.reads_labels() else None
        model.fit(dataset.fit_rows(transductive), y, run=out, resume=resume, context=record)
        _write_report(out)
        speaks = distributed.rank() == 0
    if model.status_ != "finished" and speaks:
        typer.echo(f"{model.status_}: go on with `viewsmith fit ... --out {out} --resume`", err=True)
    if speaks:
        typer.echo(str(out))
    if model.status_ == "interrupted":
        raise typer.Exit(130)


@app.command()
def embed(
    run: Run,
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE", help=".npz .npy .csv .parquet, or .h5ad of an .h5ad")],
    output: Annotated[
        str, typer.Option(help="representation, projection, (diffaug) map or (metaug) view-1")
    ] = "representation",
    label: Label = None,
    labels: Labels = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Write the representations of DATA, or another output of the model."""
    from viewsmith.data import write_representations
    from viewsmith.workflows.runs import load_for, load_run

    set_threads(threads)
    model = load_run(run)
    dataset = load_for(model, data, label, labels)
    with writing(out):
        write_representations(out, dataset, model.transform(dataset.x, output=output))
    typer.echo(str(out))


@app.command()
def evaluate(
    run: Run,
    data: Data,
    json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    umap: Annotated[bool, typer.Option("--umap", help="Compare with UMAP too (extra viz).")] = False,
    protocols: Annotated[str | None, typer.Option(help="Comma-separated; default: all.")] = None,
    label: Label = None,
    labels: Labels = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Compare the representation with raw features, PCA and the untrained encoder."""
    from viewsmith.core.files import write_json_atomic
    from viewsmith.evaluation.compare import compare, format_table
    from viewsmith.training.run import RunFolder
    from viewsmith.workflows.runs import load_for, load_run

    set_threads(threads)
    model = load_run(run)
    dataset = load_for(model, data, label, labels)
    result = compare(model, dataset, umap=umap, protocols=names(protocols) if protocols else None)
    with writing(RunFolder(run).evaluation):
        write_json_atomic(RunFolder(run).evaluation, result)
    if json_:
        typer.echo(RunFolder(run).evaluation.read_text(encoding="utf-8").rstrip("\n"))
    else:
        typer.echo(format_table(result))


@app.command()
def views(
    context: typer.Context,
    run: Annotated[Path, typer.Argument(metavar="RUN", help="Folder of `viewsmith fit`, or of `viewsmith generate`.")],
    data: Data,
    out: Annotated[Path, typer.Option(metavar="FILE.npz")],
    n: Annotated[int | None, typer.Option("--n", min=1, help="Of each row; default: 4, of a bank all.")] = None,
    split: Annotated[str, typer.Option(help="train or test")] = "train",
    seed: Annotated[int | None, typer.Option(min=0, help="Default: the run's.")] = None,
    label: Label = None,
    labels: Labels = None,
    image_size: ImageSize = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Write augmented views of DATA, in its own units; of PiNDA also sigma and a draw of the noise for each sample.

    Of MetAug: augmented features, and as `features` the embeddings they were made from. Of GenView and of banks also
    the samples, and noise level and quality of each view.
    """
    import numpy as np

    from viewsmith.core.files import atomic_path
    from viewsmith.data.view_cache import ViewCacheFolder
    from viewsmith.workflows.runs import load_for, load_run
    from viewsmith.workflows.views import views_of_cache, views_of_model

    if out.suffix.lower() != ".npz":
        raise InputError(f"--out is {str(out)!r}, expected a file name that ends in .npz")
    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist: make it first")
    set_threads(threads)
    shared = ("run", "data", "out", "n", "label", "labels", "threads", "debug")
    if (bank := ViewCacheFolder(run)).exists():
        check_only(context, "for a bank", (*shared, "image_size"))
        arrays = views_of_cache(bank, data, n, label=label, labels=labels, image_size=image_size)
    else:
        check_only(context, "for a run", (*shared, "split", "seed"))
        model = load_run(run)
        arrays = views_of_model(model, load_for(model, data, label, labels), n, split=split, seed=seed)
    with writing(out), atomic_path(out) as temporary, temporary.open("wb") as file:
        np.savez_compressed(file, **arrays)
    typer.echo(str(out))


@app.command()
def generate(
    context: typer.Context,
    data: Annotated[
        list[str], typer.Argument(metavar="DATA", help="As of fit; with --merge: the folders that shards wrote.")
    ],
    out: Annotated[Path, typer.Option(metavar="BANK", help="Folder for the views; goes on where it was left.")],
    merge: Annotated[bool, typer.Option("--merge", help="Join banks of one job instead, made by its shards.")] = False,
    generator: Annotated[
        str, typer.Option(help="diffusion; unclip:FOLDER or unclip:OWNER/NAME (extra unclip); folder:PATH")
    ] = "diffusion",
    run: Annotated[
        Path | None, typer.Option(metavar="RUN", help="A diffaug run whose generator to use; default: train one.")
    ] = None,
    seed: Annotated[int, typer.Option(min=0, help="Same seed, same views.")] = 0,
    views_per_sample: Annotated[int | None, typer.Option(metavar="K", min=1, help="Default: 1.")] = None,
    steps: Annotated[int | None, typer.Option(min=1, help="Of the sampler; default: 20 (unclip), the run's.")] = None,
    guidance: Annotated[float | None, typer.Option(help="Of unclip; default: 10.")] = None,
    scheduler: Annotated[
        str | None, typer.Option(help="Of unclip: ddim, ddpm, dpm, pndm or euler; default: the checkpoint's.")
    ] = None,
    noise: Annotated[
        str | None, typer.Option(help="adaptive (the default), random or constant:L, L from 0 to 400")
    ] = None,
    features: Features = None,
    shard: Annotated[str, typer.Option(metavar="I/N", help="Part of the job, from 1/N to N/N.")] = "1/1",
    batch_size: Annotated[
        int | None, typer.Option(min=1, help="Samples in a block; default: 16 (unclip), 256.")
    ] = None,
    epochs: Annotated[int | None, typer.Option(min=1, help="Of the training of a generator.")] = None,
    device: Annotated[str, typer.Option(help="auto, cpu or cuda")] = "auto",
    label: Label = None,
    labels: Labels = None,
    image_size: ImageSize = None,
    domain: Annotated[str | None, typer.Option(help="vectors, images or dna; default: from the data")] = None,
    transductive: Annotated[bool, typer.Option("--transductive", help="Views of all rows.")] = False,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Generate views of DATA once, for `fit --method genview`; a job that was stopped goes on."""
    from viewsmith.data import load_dataset
    from viewsmith.training.generation import parse_shard
    from viewsmith.workflows.generate import generate_cache, merge_caches

    if merge:
        check_only(context, "beside --merge", ("merge", "data", "out", "debug"))
        with writing(out):
            bank = merge_caches([Path(folder) for folder in data], out)
        if missing := bank.missing():
            typer.echo(f"{len(missing)} of {len(bank.numbers())} blocks are not there yet", err=True)
        typer.echo(str(out))
        return
    if len(data) > 1:
        raise InputError(f"{len(data)} names of data are given, expected one; to join banks of shards add --merge")
    part = parse_shard(shard)
    set_threads(threads)
    dataset = load_dataset(data[0], label=label, labels=labels, domain=domain, image_size=image_size)
    with writing(out):
        bank = generate_cache(
            dataset,
            out,
            generator=generator,
            run=run,
            seed=seed,
            views_per_sample=views_per_sample,
            steps=steps,
            guidance=guidance,
            scheduler=scheduler,
            noise=noise,
            features=features or "encoder",
            shard=part,
            batch_size=batch_size,
            epochs=epochs,
            transductive=transductive,
            device=device,
            progress=True,
        )
    if missing := bank.missing():
        typer.echo(f"{len(missing)} of {len(bank.numbers())} blocks are for other shards", err=True)
    typer.echo(str(out))


@app.command()
def export(
    run: Run,
    out: Annotated[Path, typer.Option(metavar="FILE", help="File to write.")],
    format_: Annotated[
        str, typer.Option("--format", help="timm, torchvision, onnx (extra export) or safetensors")
    ] = "safetensors",
    debug: Debug = False,
) -> None:
    """Write the encoder of RUN in a form that others can load."""
    from viewsmith.workflows.export import export_encoder
    from viewsmith.workflows.runs import load_run

    if not out.parent.is_dir():
        raise InputError(f"the folder {out.parent} does not exist: make it first")
    model = load_run(run)
    with writing(out):
        hint = export_encoder(model, out, format_)
    typer.echo(hint, err=True)
    typer.echo(str(out))


@app.command()
def report(
    run: Run,
    data: Annotated[str | None, typer.Option(metavar="DATA", help="Default: the data of the run.")] = None,
    label: Label = None,
    labels: Labels = None,
    threads: Threads = None,
    debug: Debug = False,
) -> None:
    """Write RUN/report.html: curves, diagnostics, comparison, maps."""
    set_threads(threads)
    typer.echo(str(_write_report(run, data=data, label=label, labels=labels, pictures=True)))


@app.command()
def methods(json_: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False, debug: Debug = False) -> None:
    """List methods, frameworks, view makers, domains and papers."""
    from viewsmith.catalog import CATALOG, as_text

    typer.echo(json.dumps(CATALOG, indent=2) if json_ else as_text())


def main(arguments: list[str] | None = None) -> None:
    """Run a command and exit: 0 success, 2 bad input or usage, 1 failure of ours, 130 interrupted."""
    arguments = (sys.argv[1:] if arguments is None else arguments) or ["--help"]
    warnings.showwarning = show_warning
    warnings.simplefilter("ignore", DeprecationWarning)
    warnings.simplefilter("ignore", FutureWarning)
    # scikit-learn compares the names of a DataFrame; here `load_for` has put the columns in order.
    warnings.filterwarnings("ignore", message="X does not have valid feature names")
    try:
        code = app(args=arguments, prog_name="viewsmith", standalone_mode=False)
        if sys.stdout is not None:
            sys.stdout.flush()
    except (Exception, KeyboardInterrupt) as error:
        if "--debug" in arguments:
            traceback.print_exc()
        code, message = explain(error)
        if message:
            print(f"error: {cut(message)}", file=sys.stderr)
    raise SystemExit(code if isinstance(code, int) else 0)


def _write_report(
    run: Path,
    *,
    data: str | None = None,
    label: str | None = None,
    labels: Path | None = None,
    pictures: bool = False,
) -> Path:
    from viewsmith.core import distributed
    from viewsmith.reports import write_report
    from viewsmith.training.run import RunFolder
    from viewsmith.workflows.runs import report_content

    folder = RunFolder(run)
    folder.require()
    if distributed.rank() == 0:
        write_report(folder.report, report_content(folder, data=data, label=label, labels=labels, pictures=pictures))
    return folder.report
