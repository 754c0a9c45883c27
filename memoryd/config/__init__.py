"""Configuration: the only reader of environment variables and of the user's home.

`places` is light, for every client command; `reading` is for the daemon and for validation;
`edit` is for the two commands that change the file. Import the module you need.
"""
