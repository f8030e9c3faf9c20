"""Whole spans and the texts in them: redacted together, and remembered."""
