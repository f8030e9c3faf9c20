"""OTLP, once: `encode` and `decode` for protobuf (over `raw` and `count`), `json_form` and `json_body` for JSON.

`encode` and `json_form` import no protobuf: an agent's process does without it.
"""
