"""One-line statistics with a certificate: counts, sums, means, variances, histograms, quantiles and covariances."""
