"""Shared by all seams: patching a library, the switch between recording and serving, and the recorder."""
