"""Surrogates: what replaces a value of each class, in its shape and belonging to nobody."""
