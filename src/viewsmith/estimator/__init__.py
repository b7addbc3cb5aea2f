"""The estimator that all methods share: from options to modules, fit, transform, save."""
