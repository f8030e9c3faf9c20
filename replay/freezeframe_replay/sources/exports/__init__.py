"""Exports: recorded runs in the forms that other tools read. `kinds` lists them."""
