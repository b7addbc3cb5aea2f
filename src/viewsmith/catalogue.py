"""What there is: methods, frameworks, view makers, domains, papers."""

from __future__ import annotations

from typing import Any

CATALOGUE: dict[str, Any] = {
    "methods": {
        "contrastive": {
            "estimator": "Contrastive",
            "domains": ["vectors"],
            "learns": "nothing: fixed views, by default the neighbour recipe",
            "paper": "SimCLR: Chen et al. 2020, A simple framework for contrastive learning of visual representations",
        },
        "pinda": {
            "estimator": "PiNDA",
            "domains": ["vectors"],
            "learns": "the noise of every feature of every sample",
            "paper": "PiNDA: Zhang et al. 2024, Data augmentation of contrastive learning is estimating "
            "positive-incentive noise (arXiv 2408.09929)",
        },
    },
    "frameworks": {"simclr": "two views attract, all others of the batch repel; kernels cosine and cauchy"},
    "view makers": {
        "vectors": {
            "identity": "the sample itself",
            "noise": "Gaussian or uniform noise of one strength",
            "corruption": "a share of the features from other rows (SCARF: Bahri et al. 2022)",
            "mixup": "mixed with a random row (DACL: Verma et al. 2021)",
            "neighbour-mix": "mixed with one of the nearest rows",
            "neighbours": "the other end of an edge of the nearest-neighbour graph",
        }
    },
    "domains": {"vectors": "tables, sensors, omics: float or integer features"},
}


def as_text() -> str:
    """The catalogue for a terminal."""
    lines = []
    for name, entry in CATALOGUE["methods"].items():
        lines += [f"{name}  ({', '.join(entry['domains'])})", f"    learns {entry['learns']}", f"    {entry['paper']}"]
    lines += ["", "frameworks", *(f"    {name}: {text}" for name, text in CATALOGUE["frameworks"].items())]
    for domain, makers in CATALOGUE["view makers"].items():
        lines += ["", f"views of {domain} (--views, joined by +)"]
        lines += [f"    {name}: {text}" for name, text in makers.items()]
    return "\n".join(lines)
