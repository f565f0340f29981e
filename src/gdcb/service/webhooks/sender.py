"""Send webhooks: the ledger is the outbox, and a hook's cursor says how far it was read.

A cursor moves when the receiver has answered 2xx, and not before. So nothing is lost by a crash;
what was sent and not yet written down is sent again under the same ids. Messages of a hook come in
the order of the ledger: where one fails, those behind it wait.
"""

from __future__ import annotations

import logging
import os
import secrets
import threading
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor

from gdcb.errors import GdcbError, InvalidInput, StoreError
from gdcb.instance import Instance
from gdcb.ledger.live import Live
from gdcb.ledger.sql import SqlStore
from gdcb.service.webhooks.addresses import Resolver, addresses_of, resolve, target_of
from gdcb.service.webhooks.leases import SECOND, Job, LeaseLost, Leases
from gdcb.service.webhooks.messages import Message, body_of, concerns, messages_of
from gdcb.service.webhooks.past import Past
from gdcb.service.webhooks.posting import TIMEOUT, NoAnswer, post
from gdcb.service.webhooks.signing import HEADER, sign

log = logging.getLogger("gdcb.service.webhooks")
MOST_MESSAGES = 500
_POSTS_A_TURN = 50
_WORKERS = 8
# Seconds between two looks: without news of this process, and at least.
_EVERY, _PAUSE = 2.0, 0.2
# Entries after which the cursor is written down though nothing was sent.
_STRETCH = 5_000
# Messages to send together, the cursor behind them, and how many of that entry are sent by then.
_Batch = tuple[list[Message], int, int]


class Sender:
    """Tell receivers what happened, in the background.

    Parameters
    ----------
    store : where ledgers and hooks are
    clock : µs since 1970
    allow_local : whether hooks may go to this machine and its network
    resolver : (host, port) → addresses
    timeout : seconds for one POST and its answer
    """

    def __init__(
        self,
        store: SqlStore,
        clock: Callable[[], int],
        allow_local: bool = False,
        *,
        resolver: Resolver = resolve,
        timeout: float = TIMEOUT,
    ) -> None:
        self._store, self._clock, self._allow_local = store, clock, allow_local
        self._resolver, self._timeout = resolver, timeout
        self._leases = Leases(store, f"{os.getpid()}-{secrets.token_hex(8)}")
        self._instances: dict[str, Instance] = {}
        # How many messages of the entry at the cursor were received: (cursor, messages) by hook.
        self._partly: dict[str, tuple[int, int]] = {}
        self._busy: set[str] = set()
        self._news, self._stopping = threading.Event(), threading.Event()
        self._thread: threading.Thread | None = None

    # In the background

    def start(self) -> None:
        """Begin to send."""
        if self._thread is None:
            self._stopping.clear()
            self._thread = threading.Thread(target=self._run, name="webhooks", daemon=True)
            self._thread.start()

    def stop(self) -> None:
        """Finish the POSTs that are under way, and stop."""
        self._stopping.set()
        self._news.set()
        if self._thread is not None:
            self._thread.join(timeout=2 * self._timeout)
            self._thread = None

    def heard(self, live: Live, first: int, stop: int) -> None:
        """Hear that something was committed; see `gdcb.service.desk.Listener`."""
        self._news.set()

    def _run(self) -> None:
        # Each hook has a thread while it is served: a slow receiver keeps nobody else waiting.
        with ThreadPoolExecutor(_WORKERS, thread_name_prefix="webhook") as pool:
            while not self._stopping.is_set():
                self._news.clear()
                for job in self._due():
                    if job.id not in self._busy:
                        self._busy.add(job.id)
                        pool.submit(self._in_background, job)
                self._stopping.wait(_PAUSE)
                self._news.wait(_EVERY)

    def _due(self) -> list[Job]:
        try:
            return self._leases.due(self._clock())
        except StoreError as error:
            log.warning("webhooks wait: %s", error)
        except Exception:
            log.exception("webhooks wait")
        return []

    def _in_background(self, job: Job) -> None:
        done = 0
        try:
            done = self._serve(job)
        finally:
            self._busy.discard(job.id)
            if done:
                self._news.set()  # there may be more, which was passed over while this was busy

    # One turn

    def pass_once(self) -> int:
        """Serve every hook that is due, one after the other; return how many POSTs were received.

        At most 50 a hook, so that a long backlog of one does not keep the others waiting.
        """
        return sum(self._serve(job) for job in self._leases.due(self._clock()))

    def _serve(self, due: Job) -> int:
        """Send what there is for one hook; whatever it meets is written down, never raised."""
        done, job = 0, due
        try:
            if not self._skip(due):
                return 0
            taken = self._leases.take(due.id, self._clock())
            if taken is None:
                return 0
            job = taken
            for batch in self._batches(job):
                if done >= _POSTS_A_TURN or self._stopping.is_set():
                    break
                done += self._send(job, *batch)
            self._leases.give_back(job)
        except LeaseLost:
            log.info("webhook %s: somebody else sends for it", job.id)
        except NoAnswer as error:
            self._failed(job, str(error))
        except StoreError as error:
            log.warning("webhook %s waits: %s", job.id, error)
        except GdcbError as error:
            self._failed(job, f"nothing was sent: {error}")
        except Exception:
            log.exception("webhook %s of '%s'", job.id, job.chain)
            self._failed(job, "nothing was sent: something went wrong on our side")
        return done

    def _skip(self, job: Job) -> bool:
        """Pass over what is none of a hook's business; return whether there is more to look at."""
        cursor, is_more = job.cursor, False
        for entry in self._store.read(job.chain, job.cursor):
            is_more = concerns(entry.kind, job.kinds)
            if is_more:
                break
            cursor = entry.seq + 1
        is_free = cursor == job.cursor or self._leases.skip(job, cursor, self._clock())
        return is_more and is_free

    def _batches(self, job: Job) -> Iterator[_Batch]:
        """Yield what is to be sent, in order; a stretch without a message for this hook is one."""
        past = Past(self._store, job.chain, self._instances)
        gathered: list[Message] = []
        cursor = job.cursor
        for entry in self._store.read(job.chain, job.cursor):
            found = messages_of(past, entry, job.kinds)
            is_full = gathered and len(gathered) + len(found) > MOST_MESSAGES
            if is_full or cursor - job.cursor >= _STRETCH:
                yield gathered, cursor, 0
                gathered = []
            if len(found) > MOST_MESSAGES:
                yield from self._parts(job, found, entry.seq)
                found = []
            gathered, cursor = gathered + found, entry.seq + 1
        if cursor > job.cursor:
            yield gathered, cursor, 0

    def _parts(self, job: Job, found: list[Message], seq: int) -> Iterator[_Batch]:
        """Yield an entry of many rows in parts; those that were received before are left out."""
        if job.cursor < seq:
            yield [], seq, 0
        at, received = self._partly.get(job.id, (-1, 0))
        first = received if at == seq else 0
        for start in range(first, len(found), MOST_MESSAGES):
            stop = min(start + MOST_MESSAGES, len(found))
            is_last = stop == len(found)
            yield found[start:stop], seq + is_last, 0 if is_last else stop

    def _send(self, job: Job, messages: list[Message], cursor: int, part: int) -> bool:
        """Send messages, and move the cursor once they are received."""
        if messages:
            self._leases.extend(job, self._clock())
            self._post(job, body_of(job.id, messages))
        self._leases.move(job, cursor, self._clock())
        if part:
            self._partly[job.id] = (cursor, part)
        else:
            self._partly.pop(job.id, None)
        return bool(messages)

    def _post(self, job: Job, body: bytes) -> None:
        try:
            target = target_of(job.url, self._allow_local)
            # Resolved and checked for every POST, and connected to as checked.
            addresses = addresses_of(target, self._allow_local, self._resolver)
        except InvalidInput as error:
            raise NoAnswer(str(error)) from error
        now = self._clock()
        headers = {
            "content-type": "application/json",
            "user-agent": "gdcb-webhooks",
            "gdcb-hook": job.id,
            HEADER: sign(job.secrets.at(now), now // SECOND, body),
        }
        status = post(target, addresses, headers, body, self._timeout)
        if 300 <= status < 400:
            raise NoAnswer(f"expected an answer of 2xx, got {status}; redirects are not followed")
        if not 200 <= status < 300:
            raise NoAnswer(f"expected an answer of 2xx, got {status}")

    def _failed(self, job: Job, says: str) -> None:
        try:
            goes_on = self._leases.fail(job, self._clock(), says)
        except LeaseLost:
            return
        except StoreError as error:
            log.warning("webhook %s waits: %s", job.id, error)
            return
        if goes_on:
            log.info("webhook %s of '%s': %s; it is tried again", job.id, job.chain, says)
        else:
            log.warning(
                "webhook %s of '%s' is off: it failed for three days, at last because: %s",
                job.id,
                job.chain,
                says,
            )
