"""Where recorded runs come from."""
