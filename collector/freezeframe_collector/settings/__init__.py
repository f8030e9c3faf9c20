"""The collector's settings, and what they name: policies, certificates, tokens."""
