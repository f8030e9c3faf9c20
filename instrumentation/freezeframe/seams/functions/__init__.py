"""Tools and retrievers: the application's own functions, recorded and served."""
