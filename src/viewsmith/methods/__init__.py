"""One folder for each method: its training, which follows the paper's Algorithm 1, its views, figures and estimator."""

from viewsmith.core import lazily

# Defined in higher layers, and imported on use.
__getattr__ = lazily(
    __name__,
    {
        "viewsmith.methods.contrastive.training": "ContrastiveMethod",
        "viewsmith.methods.crl_tac.training": "CRLTACMethod",
        "viewsmith.methods.diffaug.training": "DiffAugMethod",
        "viewsmith.methods.genview.training": "GenViewMethod",
        "viewsmith.methods.linear_contrast.training": "LinearContrastMethod",
        "viewsmith.methods.metaug.training": "MetAugMethod",
        "viewsmith.methods.pinda.training": "PiNDAMethod",
    },
)

__all__ = ["CRLTACMethod", "ContrastiveMethod", "DiffAugMethod", "GenViewMethod", "LinearContrastMethod"]
__all__ += ["MetAugMethod", "PiNDAMethod"]
