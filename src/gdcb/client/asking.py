"""What both clients have in common: a call goes out, and a document or a list comes back."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Generic, TypeVar

from gdcb.client.calls import Call

One = TypeVar("One")
Many = TypeVar("Many")


class Asking(ABC, Generic[One, Many]):
    """Somebody who can send a call; `One` and `Many` are what it is answered with."""

    @abstractmethod
    def _one(self, call: Call) -> One:
        """Send a call that is answered with a document."""

    @abstractmethod
    def _many(self, call: Call) -> Many:
        """Send a call that is answered with a list of documents."""
