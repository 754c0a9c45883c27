"""`memoryd mcp`: a Model Context Protocol server on standard input and output, in a process of its own.

A thin client of the control socket: it keeps nothing and asks the daemon on each call. Only server.py imports the SDK
of the protocol (extra `mcp`); everything else is plain Python from argument to answer.
"""
