"""Floor 2: the search index of one store, behind the port in `core/index.py`. Disposable: rebuilt from the files."""
