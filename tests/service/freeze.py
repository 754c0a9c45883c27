"""Stop single threads of a process, as a bug or a file system that never answers does.

As a program: `python freeze.py THREAD...` (ids of threads) holds them with ptrace until it ends, or they do.
"""

from __future__ import annotations

import ctypes
import os
import sys

PTRACE_SEIZE, PTRACE_INTERRUPT, WALL = 0x4206, 0x4207, 0x40000000


def freeze(thread: int) -> None:
    """Stop the thread; its process goes on. Only what traces it can let it go on, or the end of its process."""
    libc = ctypes.CDLL(None, use_errno=True)
    for request in (PTRACE_SEIZE, PTRACE_INTERRUPT):
        if libc.ptrace(request, thread, 0, 0):
            raise OSError(ctypes.get_errno(), f"ptrace of {thread}")
    os.waitpid(thread, WALL)


if __name__ == "__main__":
    frozen = [int(word) for word in sys.argv[1:]]
    for each in frozen:
        freeze(each)
    print("frozen", flush=True)
    for each in frozen:
        os.waitpid(each, WALL)  # a thread that is traced stays until its tracer has seen its end
