"""Surrogates: what replaces a value of each class, in its shape; no one has them."""
