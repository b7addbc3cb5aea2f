"""CLIP's networks with tiny random weights, in folders as transformers writes them."""

from pathlib import Path
from typing import Any

SIZES = {"hidden_size": 32, "projection_dim": 16, "num_hidden_layers": 2, "num_attention_heads": 4}
VISION = {"image_size": 32, "patch_size": 8, "intermediate_size": 37, **SIZES}


def save_clip(folder: Path, kind: str = "CLIPVisionModel", *, seed: int = 0, settings: bool = True) -> Any:
    """A model of images of 32 x 32 pixels and 4 x 4 patches, or (``CLIPModel``) one of images and texts; the model."""
    import torch
    import transformers

    torch.manual_seed(seed)
    if kind == "CLIPModel":
        text = {"intermediate_size": 37, "vocab_size": 10, "bos_token_id": 0, "eos_token_id": 1, **SIZES}
        config = transformers.CLIPConfig(vision_config=VISION, text_config=text)
    else:
        config = transformers.CLIPVisionConfig(**VISION)
    model = getattr(transformers, kind)(config).eval()
    norm = next(module for name, module in model.named_modules() if name.endswith("post_layernorm"))
    torch.nn.init.normal_(norm.weight)  # otherwise leaving it out would have no effect
    model.save_pretrained(folder)
    if settings:
        processor().save_pretrained(folder)
    return model


def processor() -> Any:
    """Scale images for the models one by one, as a reference."""
    import transformers

    # Since 5.4 the other name is a processor on torchvision.
    make = getattr(transformers, "CLIPImageProcessorPil", None) or transformers.CLIPImageProcessor
    statistics = {"image_mean": [0.5, 0.4, 0.3], "image_std": [0.2, 0.3, 0.4]}
    return make(size={"shortest_edge": 32}, crop_size={"height": 32, "width": 32}, resample=3, **statistics)
