"""One-line statistics: private counts, sums, means, variances, histograms and covariances with a certificate."""
