"""What the symmetries among the views make of samples."""

import torch

from viewsmith.modalities.dna.views import DNAViews
from viewsmith.modalities.images.views import image_recipe
from viewsmith.views import GaussianNoise


def test_mirror_images_where_views_are_mirrored():
    x = torch.randn(3, 1, 8, 8, generator=torch.Generator().manual_seed(0))
    for recipe in ("simclr", "byol"):
        both = image_recipe(recipe, size=8).symmetric_copies(x)
        assert len(both) == 2 and torch.equal(both[0], x) and torch.equal(both[1], x.flip(3))
    assert len(image_recipe("simclr", size=8, flip=0.0).symmetric_copies(x)) == 1
    assert len(GaussianNoise(0.5).symmetric_copies(x)) == 1


def test_the_other_strand_where_views_show_it():
    x = torch.eye(4)[torch.tensor([[0, 0, 1, 3]])].mT  # AACT, other strand AGTT
    both = DNAViews().symmetric_copies(x)
    assert torch.equal(both[0], x) and both[1].argmax(1).tolist() == [[0, 2, 3, 3]]
    assert len(DNAViews(strand=0.0).symmetric_copies(x)) == 1
