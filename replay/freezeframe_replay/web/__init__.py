"""The replay service's pages: outlines written as HTML. Pure; every text is escaped, and all can be read without a script."""
