"""The seams of HTTP clients. `adapter` holds the life of a call; a module holds what is peculiar to its library."""
