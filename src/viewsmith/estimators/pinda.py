"""PiNDA: learned noise, alone or on top of fixed views."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, ClassVar, Literal

from torch import Tensor

from viewsmith.core.method import Method
from viewsmith.estimators import parts
from viewsmith.estimators.base import ViewsmithEstimator
from viewsmith.estimators.parts import Auto, BatchSize, Count, Positive, Rate, Share, Widths
from viewsmith.estimators.strength import resolve_strength
from viewsmith.methods.pinda import PiNDAMethod
from viewsmith.views.pi_noise import PiNoise


class PiNDA(ViewsmithEstimator):
    """Representations of vectors learned together with the noise that augments them (pi-noise).

    A generator predicts the standard deviation of Gaussian (or uniform) noise for every feature of every sample and is
    trained with the encoder on the contrastive loss. The defaults keep the noise level at `strength` and hold the
    noise on all features by a log barrier; ``PiNDA(**PiNDA.presets["paper"])`` is the published form.

    Parameters
    ----------
    framework : {"simclr"}
        Self-supervised objective.
    view_maker : str
        The other augmentation, view makers joined by "+": identity, noise, corruption, mixup, neighbour-mix,
        neighbours.
    kernel : {"cauchy", "cosine"}
        Similarity of embeddings: 1 / (1 + d^2) as they are, or exp(cosine / temperature).
    temperature : float or None
        None: 1 with the Cauchy kernel, 0.1 with the cosine.
    strength : float or "auto"
        Noise level in scaled units: kept on average when `level` is "fixed", else where training starts. "auto"
        chooses from 0.25, 0.5, 1 and 2 without labels.
    level : {"fixed", "free"}
        Whether only the shape of the noise is learned, or its level too (as published).
    distribution : {"gaussian", "uniform"}
    learn_mean : bool
        Learn a shift mu too; the authors recommend mu = 0.
    two_sided : bool
        Noise on both views of a pair, or on one.
    penalty : {"log_barrier", "inverse_norm", "none"}
        Against collapse: on noise leaving features, or (published) on small noise.
    penalty_weight : float
    objective : {"cooperative", "adversarial"}
        The generator lowers the loss (published), or raises it.
    random_share : float
        Share of the noise power spread evenly over all features, with a fixed level.
    generator_hidden : tuple of int
        Widths of the generator's hidden layers.
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
    noise_strength, corruption_rate, mixup_minimum, neighbour_mix_minimum : float
        Settings of the other augmentation, as in `Contrastive`.
    noise_distribution : {"gaussian", "uniform"}
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
    >>> from viewsmith import PiNDA
    >>> model = PiNDA(epochs=2, random_state=0).fit(load_digits().data)
    >>> model.views(load_digits().data[:3], n_views=4).shape
    (3, 4, 64)
    """

    name = "pinda"
    presets: ClassVar[dict[str, dict[str, Any]]] = {
        # Section 4.2, Algorithm 1 and appendix B; the penalty is published for images alone, its weight nowhere.
        "paper": {
            "view_maker": "identity",
            "kernel": "cosine",
            "temperature": 0.1,
            "level": "free",
            "penalty": "inverse_norm",
            "penalty_weight": 1.0,
            "two_sided": False,
            "strength": 0.5,
            "generator_hidden": (1024, 1024),
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
        strength: Positive | Auto = 0.25,
        level: Literal["fixed", "free"] = "fixed",
        distribution: Literal["gaussian", "uniform"] = "gaussian",
        learn_mean: bool = False,
        two_sided: bool = False,
        penalty: Literal["log_barrier", "inverse_norm", "none"] = "log_barrier",
        penalty_weight: Rate = 1.0,
        objective: Literal["cooperative", "adversarial"] = "cooperative",
        random_share: Share = 0.0,
        generator_hidden: Widths = (64,),
        n_components: Count = 256,
        hidden: Widths = (256,),
        norm: Literal["batch", "none"] = "batch",
        projection: Widths = (32,),
        input_components: Count | Auto | None = "auto",
        n_neighbors: Count = 5,
        noise_strength: Positive = 1.0,
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
        self.strength = strength
        self.level = level
        self.distribution = distribution
        self.learn_mean = learn_mean
        self.two_sided = two_sided
        self.penalty = penalty
        self.penalty_weight = penalty_weight
        self.objective = objective
        self.random_share = random_share
        self.generator_hidden = generator_hidden
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
        resolved = parts.resolve_common(options, x) | {"noise_strength": options.noise_strength}
        return resolved | resolve_strength(self, options, "strength", x, seed)

    def _build(self, options: SimpleNamespace, fitted: dict[str, Any]) -> Method:
        encoder = parts.make_encoder(options, fitted)
        noise = PiNoise(
            fitted["n_features"],
            hidden=options.generator_hidden,
            distribution=options.distribution,
            learn_mean=options.learn_mean,
            strength=fitted["strength"],
            level=options.level,
            random_share=options.random_share,
            adversarial=options.objective == "adversarial",
        )
        return PiNDAMethod(
            parts.make_framework(options, encoder),
            parts.make_views(options, fitted, encoder),
            noise,
            two_sided=options.two_sided,
            penalty=options.penalty,
            penalty_weight=options.penalty_weight,
            epochs=fitted["epochs"],
            optimizer=parts.make_optimizer(options),
        )

    def noise_profile(self, X: Any) -> tuple[Any, Any]:
        """Mean and standard deviation over the rows of `X` of the learned noise per feature.

        Returns
        -------
        mean, spread : ndarray, shape (d,)
            Of sigma(x), in the units of each feature.
        """
        import torch
        from sklearn.utils.validation import check_is_fitted

        check_is_fitted(self)
        x = self._scaled(self._rows(X, reset=False))
        assert isinstance(self.method_, PiNDAMethod)
        with torch.no_grad():
            sigma = torch.cat([self.method_.noise.parameters_of_noise(block)[0] for block in x.split(1024)])
        unit = self.scaler_.scale * self.scaler_.varies
        return (sigma.mean(0) * unit).cpu().numpy(), (sigma.std(0, correction=0) * unit).cpu().numpy()
