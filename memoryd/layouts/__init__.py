"""Layouts: one package for each on-disk format, each a `Layout` value. Pure: text and time in, values out."""
