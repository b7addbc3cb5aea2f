"""What users give to fit besides options: samples, labels, groups and neighbors, as the training takes them."""
