"""Configuration: the only reader of environment variables and of the user's home.

`places` is cheap to import, for every client command; `load` is for the daemon and for validation;
`edit` is for the two commands that change the file. Import the module you need.
"""
