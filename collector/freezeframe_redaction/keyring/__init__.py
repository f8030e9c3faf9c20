"""Keys, and the vault that they open."""
