"""Cost of private k-means over the non-private floor, in many regimes: rows, columns, clusters, tails, epsilon."""
