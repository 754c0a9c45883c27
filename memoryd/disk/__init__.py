"""The only part of the house that opens, renames, stats and locks files.

`tree` reads beneath one root through directory descriptors, `atomic` is the one place that changes
files of a root. Neither knows what the files mean; layouts do, and never touch a disk.
"""
