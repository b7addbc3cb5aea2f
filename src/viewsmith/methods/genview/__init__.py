"""GenView: views of a pretrained generator, weighted by quality."""
