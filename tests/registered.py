"""The registered parts, for contract batteries: a newly registered part is tested without a change here."""

import numpy as np

from viewsmith.core.registry import find, registered
from viewsmith.methods.linear_contrast.estimator import OF_TRAINING, LinearContrast
from viewsmith.methods.loading import estimators
from viewsmith.modalities import modality_of

MODALITIES = ("vectors", "images", "dna")
# These have tests of their own: test_estimators_series.py, test_estimators_proteins.py, test_estimators_letters.py.
assert {*registered("modality")} == {*MODALITIES, "letters:ABC", "proteins", "series", "spectra"}
FRAMEWORKS = tuple(name for name in registered("framework") if find("framework", name).tag("general", True))
VIEWS = {d: tuple(name for name in registered("view maker", d) if ":" not in name) for d in MODALITIES}
ENCODERS = {
    # The default is first, for tests that need only one.
    d: tuple(
        sorted((n for n in registered("encoder", d) if ":" not in n), key=lambda n: n != modality_of(d).default_encoder)
    )
    for d in MODALITIES
}
GENERATORS = {d: tuple(registered("noise generator", d)) for d in MODALITIES}
DEFAULT_VIEWS = {d: modality_of(d).default_views for d in MODALITIES}


def heads(framework, **wanted):
    """The options in `wanted` that a framework has; it would refuse the others."""
    return {"framework": framework} | {n: v for n, v in wanted.items() if n in find("framework", framework).options}


def labels(framework, x):
    """Labels of two classes for a framework that reads labels; None for other frameworks."""
    return np.arange(len(x)) % 2 if framework == "supcon" else None


def taken_by(views, modality, x):
    """Rows that view makers, joined by + (None: the default), take: `x`, or counts in its shape."""
    needs = [find("view maker", name, modality).tag("needs") for name in (views or DEFAULT_VIEWS[modality]).split("+")]
    return np.floor(np.abs(3 * x)).astype(x.dtype) if "counts" in needs else x


def made(method, **options):
    """An estimator, by class or name, with the options that it uses: linear-contrast trains no network, and solves for
    one ridge and few columns here."""
    cls = estimators()[method] if isinstance(method, str) else method
    if cls is LinearContrast:
        options = {name: value for name, value in options.items() if name not in OF_TRAINING}
        options = {"n_views": 2, "ridge": 0.1, "n_components": 8} | options
    return cls(**options)


#: Methods that train an encoder, for tests of networks, frameworks and their training.
TRAINED = {name: cls for name, cls in estimators().items() if cls is not LinearContrast}
