"""Private k-means: planning, mechanism, result, estimator and page."""
