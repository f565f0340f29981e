"""Work in a child: for what a fork changes, and for somebody whom permissions bind."""

from __future__ import annotations

import os
from collections.abc import Callable


def in_child(work: Callable[[], str], is_nobody: bool = False) -> str:
    """Do something in a child; as nobody, whom permissions bind: they do not bind root."""
    read, write = os.pipe()
    child = os.fork()
    if not child:
        try:
            if is_nobody and os.geteuid() == 0:
                os.setgroups([])
                os.setgid(65534)
                os.setuid(65534)
            os.write(write, work().encode())
        finally:
            os._exit(0)
    os.close(write)
    os.waitpid(child, 0)
    with os.fdopen(read) as said:
        return said.read()
