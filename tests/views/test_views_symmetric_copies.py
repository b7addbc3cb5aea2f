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


def test_parts_of_images_are_crops_at_their_corners():
    x = torch.arange(100.0).view(1, 1, 10, 10).expand(2, 1, 10, 10).clone()
    parts = image_recipe("simclr", size=10, flip=0.0).parts(x)
    assert len(parts) == 4 and all(part.shape == x.shape for part in parts)
    corners = [float(part[0, 0].mean()) for part in parts]
    torch.testing.assert_close(corners, [x[0, 0, i : i + 8, j : j + 8].mean().item() for i in (0, 2) for j in (0, 2)])
    mirrored = image_recipe("byol", size=10).parts(x)
    assert [torch.equal(a, b.flip(3)) for a, b in zip(mirrored, parts, strict=True)] == [False, True, True, False]
    assert image_recipe("simclr", size=10, scale=(1.0, 1.0)).parts(x) == [] == GaussianNoise(0.5).parts(x)


def test_parts_count_as_much_as_images_go_on_beyond_their_edge():
    x = torch.randn(50, 1, 10, 10, generator=torch.Generator().manual_seed(0))
    views = image_recipe("simclr", size=10)
    assert views.share_of_parts(x) > 0.4
    empty = x.clone()
    empty[:, :, 0], empty[:, :, -1], empty[:, :, :, 0], empty[:, :, :, -1] = 0, 0, 0, 0
    assert views.share_of_parts(empty) == 0 == GaussianNoise(0.5).share_of_parts(x)
    assert views.share_of_parts(0 * x) == 0
