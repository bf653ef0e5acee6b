"""Speed and accuracy, measured side by side in one run. Not part of the package."""
