"""The published settings of the methods, and the options that `viewsmith tune` searches by default.

Presets are NAME for vectors, and NAME-DOMAIN for other domains. Searches are ranges by domain and option, `*` for other
domains: options whose values made a difference in the trials of the documentation, or that depend on the data.
"""

from __future__ import annotations

from typing import Any

CONTRASTIVE: dict[str, dict[str, Any]] = {
    # SimCLR as the noise papers run it on vectors (PiNDA, section 4.2 and appendix B).
    "paper": {
        "view_maker": "noise",
        "kernel": "cosine",
        "hidden": (1024, 1024),
        "norm": "none",
        "projector_dims": (256, 128),
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "schedule": "constant",
        "epochs": 100,
    },
    # SimCLR as the same paper runs it on images (section 4.2, table 3, appendix B).
    "paper-images": {
        "view_maker": "simclr",
        "flip": 0.5,
        "kernel": "cosine",
        "temperature": 0.1,
        "encoder": "resnet18",
        "projector_dims": (256, 128),
        "batch_size": 256,
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "schedule": "constant",
        "epochs": 1000,
    },
}

PINDA: dict[str, dict[str, Any]] = {
    # Section 4.2, Algorithm 1 and appendix B; a penalty is published for images only.
    "paper": {
        "view_maker": "identity",
        "kernel": "cosine",
        "temperature": 0.1,
        "level": "free",
        "penalty": "none",
        "algorithm": 1,
        "two_sided": False,
        "strength": 0.5,
        "generator_hidden": (1024, 1024),
        "hidden": (1024, 1024),
        "norm": "none",
        "projector_dims": (256, 128),
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "schedule": "constant",
        "epochs": 100,
    },
    # Table 3, appendix B: on top of SimCLR, with a second ResNet-18.
    "paper-images": {
        "view_maker": "simclr",
        "flip": 0.5,
        "kernel": "cosine",
        "temperature": 0.1,
        "level": "free",
        "penalty": "inverse_norm",
        "penalty_weight": 1.0,
        "algorithm": 1,
        "two_sided": False,
        "strength": 0.5,
        "generator": "resnet18",
        "encoder": "resnet18",
        "projector_dims": (256, 128),
        "batch_size": 256,
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "schedule": "constant",
        "epochs": 1000,
    },
}

#: Published settings that are the same for all domains (appendices D and E).
_DIFFAUG: dict[str, Any] = {
    "projector_dims": None,
    "kernel": "paper",
    "normalize": False,
    "negative_weight": 1.0,
    "nu_map": 1.0,
    "target_distance": None,
    "targets": "views",
    "map_hidden": (),
    "condition": "map",
    "denoiser": "published",
    "predicts": "eps",
    "noise_schedule": "linear",
    "sampler": "ddpm",
    "sampler_steps": 1000,
    "strength": 1.0,
    "refresh": 0,
    "cached_views": 1,
    "replacement": 0.1,
    "optimizer": "adamw",
    "weight_decay": 1e-6,
    "schedule": "constant",
}

DIFFAUG: dict[str, dict[str, Any]] = {
    # Appendix E.2 and table 11; epochs of section 3.2. The number of neighbors is that of the authors' program.
    "paper": {
        **_DIFFAUG,
        "view_maker": "neighbor-mix",
        "neighbor_mix_minimum": 0.0,
        "n_neighbors": 5,
        "input_components": None,
        "hidden": (500, 300),
        "n_components": 80,
        "batch_size": 300,
        "learning_rate": 1e-4,
        "generator_learning_rate": 1e-4,
        "phases": "A330 B330 A340",
    },
    # Appendix D.2, table 9; epochs of section 3.3.
    "paper-images": {
        **_DIFFAUG,
        "view_maker": "simclr",
        "flip": 0.5,
        "encoder": "resnet50",
        "map_components": 128,
        "batch_size": 256,
        "learning_rate": 1e-3,
        "generator_learning_rate": 1e-3,
        "phases": "A200 B400 A800",
    },
}

CRL_TAC: dict[str, dict[str, Any]] = {
    # Sections 3, 5.2 and 5.3, which do not give optimizer, learning rates, batch size and epochs.
    "paper-images": {
        "encoder": "crl-cnn",
        "scaling": "none",
        "projector_dims": (200, 50),
        "beta": 0.5,
        "channel_beta": 0.5,
        "draws": 8,
        "encoder_step": "sampled",
        "channel_step": "sampled",
        "importance_weights": "plain",
        "start": "none",
        "start_steps": 0,
        "recurrence_weight": 0.0,
        "objective": "bound",
        "entropy_weight": 0.0025,
        "effective_target": None,
        "batch_size": 256,
        "optimizer": "adam",
        "learning_rate": 1e-3,
        "channel_learning_rate": 1e-3,
        "schedule": "constant",
        "epochs": 50,
    },
}

# Section 4.1, appendices A.4 and B; settings that are missing there are those of the authors' program.
_METAUG: dict[str, Any] = {
    "projector_dims": (128,),
    "inner_rate": 1e-3,
    "feature_hidden": (2048, 2048),
    "residual": False,
    "feature_every": 1,
    "form": "squared",
    "beta": 64.0,
    "memory": "bank",
    "negative_draws": "sample",
    "positives": "memory",
    "batch_size": 64,
    "optimizer": "adam",
    "learning_rate": 1e-3,
    "schedule": "constant",
    "epochs": 300,
}

METAUG: dict[str, dict[str, Any]] = {
    # In the paper delta is the weight of a sum of terms (4 for images, 3 for vectors), here of their mean. alpha is
    # 1e-13 for both.
    "paper": {
        **_METAUG,
        "encoders": "per-view",
        "feature_weight": 3e-5,
        "margin_weight": 3e-9,
    },
    "paper-images": {
        **_METAUG,
        "split": "color",
        "encoder": "split-alexnet",
        "n_components": 2048,
        "view_maker": "crop",
        "flip": 0.5,
        "crop_minimum": 0.2,
        "feature_weight": 4e-5,
        "margin_weight": 2.5e-9,
    },
}

GENVIEW: dict[str, dict[str, Any]] = {
    # Appendix 0.A, CIFAR-10 (table 5): MoCo v2 on views of Stable unCLIP, with quality by CLIP; see docs/genview.md.
    "paper-images": {
        "framework": "moco",
        "view_maker": "moco",
        "flip": 0.5,
        "encoder": "resnet18",
        "projector_dims": (512, 128),
        "temperature": 0.2,
        "momentum": 0.99,
        "queue_size": 4096,
        "crop_minimum": 0.2,
        "alpha": 1.0,
        "noise": "adaptive",
        "quality": True,
        "quality_features": "views",
        "features": "clip:laion/CLIP-convnext_base_w-laion2B-s13B-b82K-augreg",
        "gamma": 1.0,
        "batch_size": 512,
        "optimizer": "sgd",
        "learning_rate": 0.5,
        "weight_decay": 5e-4,
        "schedule": "cosine",
        "warmup": 0.02,
        "epochs": 500,
    },
}

#: Options that a preset has to be given, and what for.
GENVIEW_NEEDS: dict[str, dict[str, str]] = {
    "paper-images": {
        "view_cache": "views of Stable unCLIP: make them by `viewsmith generate DATA --generator "
        "unclip:stabilityai/stable-diffusion-2-1-unclip --out CACHE` (or unclip:FOLDER with its weights) and add "
        "--view-cache CACHE"
    }
}

_RATE = {"learning_rate": "0.0005..0.02"}

_NEIGHBORS = {**_RATE, "n_neighbors": "3..30"}

_CROPS = {**_RATE, "crop_minimum": "0.08..0.7", "color_strength": "0..1.5"}

_EDITS = {**_RATE, "mutation_rate": "0.02..0.3", "max_edits": "1..4"}

_STRENGTH = {"strength": "0.05..1.0"}

_CHANNEL = {"learning_rate": "0.0003..0.005", "beta": "0.5..10.0"}  # a large beta fails at a larger rate

_GENERATORS = {**_RATE, "feature_weight": "0.1..10.0", "margin_weight": "0.1..10.0"}

SEARCH: dict[str, dict[str, dict[str, str]]] = {
    "contrastive": {"vectors": _NEIGHBORS, "images": _CROPS, "dna": _EDITS},
    "pinda": {"vectors": {**_NEIGHBORS, **_STRENGTH}, "*": {**_RATE, **_STRENGTH}},
    "diffaug": {"vectors": {**_NEIGHBORS, "target_distance": "30.0..300.0"}, "images": _CROPS, "dna": _EDITS},
    "genview": {"vectors": _NEIGHBORS, "images": _CROPS, "dna": _EDITS},
    "crl-tac": {
        "vectors": {**_CHANNEL, "mask_fraction": "0.2..0.8"},
        "dna": {**_CHANNEL, "window_fraction": "0.2..0.8"},
        "*": _CHANNEL,
    },
    "metaug": {"*": _GENERATORS},
}
