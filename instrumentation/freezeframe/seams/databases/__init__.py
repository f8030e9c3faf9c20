"""The seams of database drivers, used if the settings ask for them."""
