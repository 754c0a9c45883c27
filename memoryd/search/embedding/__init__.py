"""Embedders: vectors that represent the meaning of texts, so that synonyms are found."""
