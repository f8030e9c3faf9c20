"""The sources of recorded runs."""
