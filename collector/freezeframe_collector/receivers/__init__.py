"""Receivers: one module per transport; each turns a request into a call of the pipeline and its outcome into an answer."""
