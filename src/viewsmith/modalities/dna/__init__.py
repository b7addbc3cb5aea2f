"""DNA sequences."""

ALPHABET = "ACGT"
