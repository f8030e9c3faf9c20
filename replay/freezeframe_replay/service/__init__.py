"""The replay service: the pages and the HTTP API on one port."""
