"""What there is: methods, frameworks, view makers, domains, papers."""

from __future__ import annotations

from typing import Any

CATALOG: dict[str, Any] = {
    "methods": {
        "contrastive": {
            "estimator": "Contrastive",
            "domains": ["vectors", "images", "dna"],
            "learns": "nothing: fixed views, by default the neighbor recipe, SimCLR's crops and colors, DNA edits",
            "paper": "SimCLR: Chen et al. 2020, A simple framework for contrastive learning of visual representations",
        },
        "pinda": {
            "estimator": "PiNDA",
            "domains": ["vectors", "images", "dna"],
            "learns": "the noise of every feature, pixel or base of every sample",
            "paper": "PiNDA: Zhang et al. 2024, Data augmentation of contrastive learning is estimating "
            "positive-incentive noise (arXiv 2408.09929)",
        },
        "diffaug": {
            "estimator": "DiffAug",
            "domains": ["vectors", "images", "dna"],
            "learns": "a diffusion model that makes new samples like a given one, and a two-dimensional map",
            "paper": "DiffAug: Zang et al. 2024, DiffAug: Enhance unsupervised contrastive learning with "
            "domain-knowledge-free diffusion-based data augmentation",
        },
        "crl-tac": {
            "estimator": "CRLTAC",
            "domains": ["vectors", "images", "dna"],
            "learns": "a distribution over transformations (crops, feature subsets, windows), given the sample",
            "paper": "CRL-TAC: Koyama et al. 2021, Contrastive representation learning with trainable augmentation "
            "channel",
        },
        "metaug": {
            "estimator": "MetAug",
            "domains": ["vectors", "images", "dna"],
            "learns": "augmented features in the embedding space, through the encoder's next step",
            "paper": "MetAug: Li et al. 2022, MetAug: Contrastive learning via meta feature augmentation",
        },
        "genview": {
            "estimator": "GenView",
            "domains": ["vectors", "images", "dna"],
            "learns": "a diffusion model with noise that each sample can bear, or takes a bank of generated views; "
            "weighs pairs by their quality",
            "paper": "GenView: Li et al. 2024, GenView: Enhancing view quality with pretrained generative model for "
            "self-supervised learning (arXiv 2403.12003)",
        },
    },
    "frameworks": {
        "info-max": "crl-tac's: information that the embedding of a view has of its sample (Koyama et al. 2021)",
        "soft": "diffaug's: similarity in the embedding follows that in the representation (Zang et al. 2024)",
        "oucl": "metaug's: all pairs of views against a memory in one loss (Li et al. 2022)",
        "simclr": "two views attract, all others of the batch repel; kernels cosine and cauchy (Chen et al. 2020)",
        "moco": "MoCo v2: keys of a slow copy, negatives from a queue (Chen, Fan et al. 2020)",
        "moco-v3": "a predictor and a slow copy, negatives of the batch, both directions (Chen, Xie et al. 2021)",
        "byol": "predict the embedding of a slow copy, no negatives (Grill et al. 2020)",
        "simsiam": "predict the other view's embedding, no gradient through it (Chen and He 2021)",
        "swav": "predict the other view's cluster among prototypes; takes multicrop (Caron et al. 2020)",
        "dino": "match a centered, sharpened slow copy; takes multicrop (Caron et al. 2021)",
    },
    "view makers": {
        "vectors": {
            "identity": "the sample itself",
            "noise": "Gaussian or uniform noise of one strength",
            "corruption": "a share of the features from other rows (SCARF: Bahri et al. 2022)",
            "mixup": "mixed with a random row (DACL: Verma et al. 2021)",
            "neighbor-mix": "mixed with one of the nearest rows",
            "neighbors": "the other end of an edge of the nearest-neighbor graph",
            "adversarial": "a step that raises the loss (CLAE: Ho and Vasconcelos 2020)",
            "conditional": "a share of the features drawn from a masked-prediction model",
        },
        "images": {
            "simclr": "random crop, flip, color jitter, gray (Chen et al. 2020)",
            "byol": "two unlike sides: blur and solarization too (Grill et al. 2020)",
            "moco": "MoCo v2's crops, colors and blur (Chen, Fan et al. 2020)",
            "multicrop": "two full and several small crops, for swav and dino (Caron et al. 2020)",
            "grid-crop": "a crop of CRL-TAC's grid, all alike, of 20 x 20 pixels (Koyama et al. 2021)",
            "identity": "the image itself",
            "noise": "Gaussian or uniform noise of one strength on every pixel",
            "mixup": "mixed with a random image",
            "neighbors": "one of the nearest images, by principal axes of the pixels or by the encoder",
            "neighbor-mix": "mixed with one of the nearest images",
            "adversarial": "a step that raises the loss (CLAE: Ho and Vasconcelos 2020)",
        },
        "dna": {
            "dna": "one or more edits of a list and perhaps the other strand (EvoAug: Lee et al. 2023)",
            "reverse-complement": "the other strand, half of the time",
            "mutation": "a share of the letters redrawn",
            "insertion": "random letters put in",
            "deletion": "a stretch taken out",
            "translocation": "the sequence rolled round",
            "inversion": "a stretch replaced by its reverse complement",
            "identity": "the sequence itself",
            "noise": "Gaussian noise on the encoded letters",
            "mixup": "mixed with a random sequence",
            "neighbors": "one of the nearest sequences, by words of four letters or by the encoder",
            "adversarial": "a step that raises the loss (CLAE: Ho and Vasconcelos 2020)",
        },
    },
    "encoders": {
        "vectors": {"mlp": "fully connected layers"},
        "images": {
            "cnn": "a small convolutional network for CPUs",
            "resnet18": "ResNet-18, with a 3x3 stem for small images (He et al. 2016)",
            "resnet50": "ResNet-50, likewise",
            "crl-cnn": "the small network of CRL-TAC (Koyama et al. 2021)",
            "split-alexnet": "AlexNet of half its channels, large or for small images (Zhang et al. 2017)",
            "timm:NAME": "any network of timm (extra timm)",
        },
        "dna": {
            "cnn": "a small convolutional network for CPUs",
            "hyena": "long convolutions in the shape of hyenadna-tiny-1k (Nguyen et al. 2023)",
        },
    },
    "domains": {
        "vectors": "tables, sensors, omics: float or integer features",
        "images": "uint8 pixels, gray or color: arrays, folders of image files",
        "dna": "letters A C G T N: arrays, texts, FASTA",
    },
}


def as_text() -> str:
    """The catalog for a terminal."""
    lines = []
    for name, entry in CATALOG["methods"].items():
        lines += [f"{name}  ({', '.join(entry['domains'])})", f"    learns {entry['learns']}", f"    {entry['paper']}"]
    lines += ["", "frameworks", *(f"    {name}: {text}" for name, text in CATALOG["frameworks"].items())]
    for kind, hint in (("view makers", "--views, joined by +"), ("encoders", "--encoder")):
        for domain, entries in CATALOG[kind].items():
            lines += ["", f"{kind} of {domain} ({hint})", *(f"    {name}: {text}" for name, text in entries.items())]
    return "\n".join(lines)
