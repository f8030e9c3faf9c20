"""OTLP, defined once: `encode` and `decode` for protobuf (over `count`), `json_form` and `json_body` for JSON.

`encode` and `json_form` do not import protobuf: an agent's process does not need it.
"""
