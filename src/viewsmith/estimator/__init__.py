"""viewsmith.estimator."""
