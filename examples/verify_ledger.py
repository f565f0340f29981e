"""Verify a ledger without gdcb: the standard library and NumPy, on the file of a SQLite ledger.

python examples/verify_ledger.py LEDGER.db recomputes the hash of every entry, the tree of hashes
over its rows, and the head of every chain. docs/service/ledger.md says how they are made.
"""

import json
import sqlite3
import sys
from contextlib import closing
from hashlib import sha256
from pathlib import Path
from urllib.parse import quote

import numpy as np

COLUMNS = {  # what has a row a decision, in the order of the fields
    "DecisionMade": "id batch row unit x mask arm action delta scaler_version worth share instead "
    "by sealed key nonce",
    "GateApplied": "id status action trail statuses reason",
    "ReviewRequested": "id gate reason",
    "ActionExecuted": "id action is_null",
    "OutcomeObserved": "id outcome label weight",
}


def read(body):
    """Return the fields of an entry's body: a head in JSON, then the arrays, each padded to 8."""
    at = 4 + int.from_bytes(body[:4], "little")
    head = json.loads(body[4:at])
    fields, at = head["fields"], at + -at % 8
    for name, kind, shape in head["arrays"]:
        size = int(np.prod(shape, dtype=int)) * np.dtype(kind).itemsize
        fields[name] = np.frombuffer(body[at : at + size], kind).reshape(shape)
        at += size + -size % 8
    return fields


def root(fields, names):
    """Return the root of the tree over the rows: a row is its texts as JSON, then its numbers."""
    parts = [fields[name] for name in names if fields.get(name) is not None]
    texts = list(zip(*[part for part in parts if isinstance(part, list)], strict=True))
    arrays = [part for part in parts if not isinstance(part, list)]
    level = []
    for i, row in enumerate(texts):
        text = json.dumps(row, separators=(",", ":")).encode()
        data = b"".join([part[i].tobytes() for part in arrays])
        leaf = len(text).to_bytes(4, "little") + text + data
        level.append(sha256(b"\0" + leaf).digest())
    while len(level) > 1:
        pairs = [level[i : i + 2] for i in range(0, len(level), 2)]
        level = [sha256(b"\1" + b"".join(p)).digest() if len(p) == 2 else p[0] for p in pairs]
    return level[0]


def row_trouble(kind, body, top):
    """Return what is wrong with the rows of an entry; None where nothing is."""
    if kind not in COLUMNS:
        return None
    try:
        found = root(read(body), COLUMNS[kind].split())
    except Exception as error:  # whoever changed a body may have left anything in it
        return f"cannot be read ({error!r:.200})"
    return None if found == top else "has another root than its rows"


def verify(path):
    """Yield what is wrong with a ledger, in sentences."""
    address = f"file:{quote(str(path))}?mode=ro"
    try:
        with closing(sqlite3.connect(address, uri=True)) as ledger:
            ledger.text_factory = bytes  # whoever changed a text need not have left UTF-8 in it
            # A chain without a head is one that somebody would hide.
            chains = ledger.execute("SELECT DISTINCT chain FROM entries")
            heads = dict.fromkeys(chains, (0, bytes(32)))
            for name, size, head in ledger.execute("SELECT name, size, hash FROM chains"):
                heads[(name,)] = (size, head)
            for (name,), head in heads.items():
                for sentence in verify_chain(ledger, name, head):
                    yield f"{name.decode(errors='backslashreplace')}: {sentence}"
    except sqlite3.Error as error:
        yield f"the file cannot be read on from here ({error})"


def verify_chain(ledger, chain, head):
    """Yield what is wrong with one chain, whose head says (size, hash)."""
    prev, number = bytes(32), 0
    names = ("by", "kind", "body", "root", "hash")
    columns = ", ".join(f'CAST("{name}" AS BLOB)' for name in names)
    query = f"SELECT CAST(seq AS INTEGER), CAST(at AS INTEGER), {columns} FROM entries"
    found = ledger.execute(f"{query} WHERE chain = CAST(? AS TEXT) ORDER BY seq", (chain,))
    for seq, at, by, kind, body, top, hash in found:
        parts = [b"1", chain, b"%d" % number, b"%d" % at, by, kind]
        parts += [sha256(body).digest(), top, prev]
        if sha256(b"".join(b"%d:%b," % (len(p), p) for p in parts)).digest() != hash:
            yield f"entry {seq} is not as it was written"
        if trouble := row_trouble(kind.decode(errors="replace"), body, top):
            yield f"entry {seq} {trouble}"
        prev, number = hash, number + 1
    if (number, prev) != head:
        yield f"it ends after {number} entries, and its head says {head[0]}"


def main(given):
    """Verify the file that is named; return the exit code: 3 where something is wrong."""
    if not given or given in (["-h"], ["--help"]):
        print(__doc__.strip())
        return 0
    if len(given) > 1 or not Path(given[0]).is_file():
        print("usage: python examples/verify_ledger.py LEDGER.db", file=sys.stderr)
        print(f"expected one file of a ledger, got {' '.join(given)}", file=sys.stderr)
        return 2
    found = list(verify(given[0]))
    print("\n".join(found) or "nothing is wrong")
    return 3 if found else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
