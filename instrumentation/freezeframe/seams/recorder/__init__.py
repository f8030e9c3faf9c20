"""What every seam stands on: patching a library, the switch between recording and serving, and the recorder."""
