"""From a table to rows of numbers: columns, the ball that bounds the rows, sources, and engines that read them."""
