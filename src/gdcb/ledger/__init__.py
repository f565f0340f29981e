"""The ledger: chains of entries, each tied to all before it, and the stores that keep them."""

from gdcb.ledger.chain_check import ChainReport, Finding, check_chain, check_store
from gdcb.ledger.entry import FORMAT, GENESIS, Draft, Entry, link
from gdcb.ledger.store import Head, Place, Snapshot, Store, Touch, Writing, open_store

__all__ = [
    "FORMAT",
    "GENESIS",
    "ChainReport",
    "Draft",
    "Entry",
    "Finding",
    "Head",
    "Place",
    "Snapshot",
    "Store",
    "Touch",
    "Writing",
    "check_chain",
    "check_store",
    "link",
    "open_store",
]
