"""Random numbers and UUIDs, by lane."""
