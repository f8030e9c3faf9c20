"""The write-ahead log: what is acked is in it, and the writer empties it into the store."""
