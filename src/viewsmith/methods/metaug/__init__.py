"""MetAug: meta-learned feature augmentation."""
