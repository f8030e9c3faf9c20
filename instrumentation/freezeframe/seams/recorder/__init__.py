"""What every seam uses: patching a library, the switch between recording and serving, and the recorder."""
