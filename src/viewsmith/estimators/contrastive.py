"""Contrastive: fixed views, by default the neighbour recipe."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from torch import Tensor

from viewsmith.core.method import Method
from viewsmith.estimators import parts
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.parts import Auto, BatchSize, Count, Positive, Rate, Share, Widths
from viewsmith.estimators.strength import resolve_strength
from viewsmith.methods.contrastive import ContrastiveMethod


class Contrastive(ViewsmithEstimator):
    """Contrastive representations of vectors with fixed views.

    The defaults are the neighbour recipe: a sample and one of its nearest rows attract, under the heavy-tailed Cauchy
    kernel; the representation is read before the projection.

    Parameters
    ----------
    framework : {"simclr"}
        Self-supervised objective.
    view_maker : str
        View makers joined by "+": identity, noise, corruption, mixup, neighbour-mix, neighbours.
    kernel : {"cauchy", "cosine"}
        Similarity of embeddings: 1 / (1 + d^2) as they are, or exp(cosine / temperature).
    temperature : float or None
        None: 1 with the Cauchy kernel, 0.1 with the cosine.
    n_components : int
        Width of the representation.
    hidden : tuple of int
        Widths of the encoder's hidden layers.
    norm : {"batch", "none"}
        BatchNorm and ReLU after every encoder layer, the representation included; or ReLU between plain layers.
    projection : tuple of int
        Widths of the projection head; the last is the embedding's.
    input_components : int, "auto" or None
        Principal axes before the encoder. "auto": 50 for more than 200 features with neighbour views, else none.
    n_neighbors : int
        Edges of each row in the neighbour graph.
    noise_strength : float or "auto"
        Standard deviation of noise views in scaled units; "auto" chooses from 0.25, 0.5, 1 and 2 without labels.
    noise_distribution : {"gaussian", "uniform"}
    corruption_rate : float
        Share of the features that corruption replaces.
    mixup_minimum, neighbour_mix_minimum : float
        Smallest share of the sample in a mixture.
    scaling : {"auto", "standard", "global", "none"}
        Input scaling; "auto" takes "global" when more than half of the entries are zero.
    impute : {"none", "median"}
        What to do with missing values: refuse, or take the median of the training rows.
    epochs : int or "auto"
        "auto": as many as take 2,000 steps.
    batch_size : int
        At least 2: the other rows of a batch are the negatives.
    optimizer : {"adamw", "adam", "sgd"}
    learning_rate, weight_decay, warmup : float
        `warmup` is the share of the steps in which the rate rises.
    schedule : {"cosine", "constant"}
    gradient_clip : float or None
        Largest norm of the gradient.
    precision : {"32", "bf16"}
    device : {"auto", "cpu", "cuda"} or "cuda:N"
    minutes : float or None
        Stop training at this age.
    checkpoint_every : float
        Seconds between checkpoints of a training with a run folder.
    verbose : bool
        Show progress on stderr when it is a terminal.
    random_state : int, RandomState or None
        Same seed, same machine, same result.

    Attributes
    ----------
    fitted_ : dict
        What fit resolved from the data.
    metrics_ : list of dict
        Loss and label-free diagnostics through training.
    status_ : str
        "finished", "interrupted" or "time limit".
    warnings_ : list of str

    Examples
    --------
    >>> from sklearn.datasets import load_digits
    >>> from viewsmith import Contrastive
    >>> X = load_digits().data
    >>> Contrastive(epochs=2, random_state=0).fit_transform(X).shape
    (1797, 256)
    """

    name = "contrastive"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # SimCLR as the noise papers run it on vectors (PiNDA, section 4.2 and appendix B).
        "paper": {
            "view_maker": "noise",
            "kernel": "cosine",
            "hidden": (1024, 1024),
            "norm": "none",
            "projection": (256, 128),
            "optimizer": "adam",
            "learning_rate": 1e-3,
            "schedule": "constant",
            "epochs": 100,
        }
    }

    def __init__(
        self,
        *,
        framework: Literal["simclr"] = "simclr",
        view_maker: str = "neighbours",
        kernel: Literal["cauchy", "cosine"] = "cauchy",
        temperature: Positive | None = None,
        n_components: Count = 256,
        hidden: Widths = (256,),
        norm: Literal["batch", "none"] = "batch",
        projection: Widths = (32,),
        input_components: Count | Auto | None = "auto",
        n_neighbors: Count = 5,
        noise_strength: Positive | Auto = 1.0,
        noise_distribution: Literal["gaussian", "uniform"] = "gaussian",
        corruption_rate: Share = 0.6,
        mixup_minimum: Share = 0.9,
        neighbour_mix_minimum: Share = 0.5,
        scaling: Literal["auto", "standard", "global", "none"] = "auto",
        impute: Literal["none", "median"] = "none",
        epochs: Count | Auto = "auto",
        batch_size: BatchSize = 256,
        optimizer: Literal["adamw", "adam", "sgd"] = "adamw",
        learning_rate: Positive = 3e-3,
        weight_decay: Rate = 0.0,
        warmup: Share = 0.0,
        schedule: Literal["cosine", "constant"] = "cosine",
        gradient_clip: Positive | None = None,
        precision: Literal["32", "bf16"] = "32",
        device: str = "auto",
        minutes: Positive | None = None,
        checkpoint_every: Rate = 30.0,
        verbose: bool = False,
        random_state: Any = None,
    ) -> None:
        self.framework = framework
        self.view_maker = view_maker
        self.kernel = kernel
        self.temperature = temperature
        self.n_components = n_components
        self.hidden = hidden
        self.norm = norm
        self.projection = projection
        self.input_components = input_components
        self.n_neighbors = n_neighbors
        self.noise_strength = noise_strength
        self.noise_distribution = noise_distribution
        self.corruption_rate = corruption_rate
        self.mixup_minimum = mixup_minimum
        self.neighbour_mix_minimum = neighbour_mix_minimum
        self.scaling = scaling
        self.impute = impute
        self.epochs = epochs
        self.batch_size = batch_size
        self.optimizer = optimizer
        self.learning_rate = learning_rate
        self.weight_decay = weight_decay
        self.warmup = warmup
        self.schedule = schedule
        self.gradient_clip = gradient_clip
        self.precision = precision
        self.device = device
        self.minutes = minutes
        self.checkpoint_every = checkpoint_every
        self.verbose = verbose
        self.random_state = random_state

    def _resolve(self, options: SimpleNamespace, x: Tensor, seed: int) -> dict[str, Any]:
        return parts.resolve_common(options, x) | resolve_strength(self, options, "noise_strength", x, seed)

    def _build(self, options: SimpleNamespace, fitted: dict[str, Any]) -> Method:
        encoder = parts.make_encoder(options, fitted)
        return ContrastiveMethod(
            parts.make_framework(options, encoder),
            parts.make_views(options, fitted, encoder),
            epochs=fitted["epochs"],
            optimizer=parts.make_optimizer(options),
        )
