"""Experiments: many runs at once. A dataset is replayed with a candidate, perturbed, bisected, grouped, or run again live."""
