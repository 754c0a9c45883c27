"""The control socket: one table of methods, one protocol, a server and a client.

The package itself is empty: a client command imports `client` and `methods` and nothing else.
"""
