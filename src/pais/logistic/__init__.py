"""Private logistic regression."""
