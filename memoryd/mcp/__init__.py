"""`memoryd mcp`: a Model Context Protocol server on standard input and output, in a separate process.

A thin client of the control socket: it stores nothing and calls the daemon each time. Only server.py imports the SDK of
the protocol (extra `mcp`); everything else is plain Python from arguments to result.
"""
