"""The collector's settings, and the files they name: policies, certificates, tokens."""
