"""`memoryd mcp`: a Model Context Protocol server on standard input and output, in a process of its own.

A thin client of the control socket: it keeps nothing, and asks the daemon anew for each call. Only server.py knows
the protocol's package (extra `mcp`); what stands beside it is plain Python from argument to answer.
"""
