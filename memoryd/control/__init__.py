"""Floor 6: the control socket. One table of methods, one protocol, a server and a client.

Kept empty on purpose: a client command imports `client` and `methods` and nothing else.
"""
