"""DNA sequences."""
