"""The write-ahead log: it holds all acked spans until the writer has put them into the store."""
