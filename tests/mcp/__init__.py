"""The Model Context Protocol server, called by the official client."""
