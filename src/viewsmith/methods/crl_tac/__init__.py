"""CRL-TAC: a trained augmentation channel."""
