"""Descriptions of runs and replays: outlines, comparisons, verdicts, and the ways to write them."""
