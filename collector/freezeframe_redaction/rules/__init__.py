"""The tables of rules, a TOML file for each family, and their reader and checks."""
