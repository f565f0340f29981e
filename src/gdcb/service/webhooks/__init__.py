"""Webhooks: tell others what happened, signed, in order, at least once.

`add_hook` and its kin keep the list of receivers, `Sender` reads the ledger and sends. Messages are
those of `messages.KINDS`; receivers check them with `gdcb.client.verify`.
"""

from gdcb.service.webhooks.hooks import (
    Hook,
    UnknownHook,
    add_hook,
    document,
    find_hook,
    list_hooks,
    remove_hook,
    resume_hook,
    rotate,
)
from gdcb.service.webhooks.messages import KINDS
from gdcb.service.webhooks.sender import Sender

__all__ = [
    "KINDS",
    "Hook",
    "Sender",
    "UnknownHook",
    "add_hook",
    "document",
    "find_hook",
    "list_hooks",
    "remove_hook",
    "resume_hook",
    "rotate",
]
