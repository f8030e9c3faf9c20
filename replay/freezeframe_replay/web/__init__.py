"""The replay service's pages: outlines written as HTML. Pure; every text is escaped, no script is used."""
