"""See and run instances: their life, what they learned, changes under four eyes, webhooks."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path

from gdcb.client.asking import Asking, Many, One
from gdcb.client.calls import Call, get, given, path_of, post, text_of
from gdcb.errors import InvalidInput

_MEDIA = {".csv": "text/csv", ".parquet": "application/vnd.apache.parquet"}
# Certifying a long log takes minutes, and so does working out a long ledger again.
_LONG_S = 1_800.0


class Operating(Asking[One, Many]):
    """What is asked of the service, instance by instance."""

    def instances(self) -> Many:
        """List the instances on which this key has a role."""
        return self._many(get("v1", "instances"))

    def instance(self, instance: str) -> One:
        """Read how an instance is."""
        return self._one(get("v1", "instances", instance))

    def declaration(self, instance: str) -> One:
        """Read the declaration in force, as TOML."""
        return self._one(get("v1", "instances", instance, "declaration"))

    def create(self, declaration: str, *, reason: str, seed: int | None = None) -> One:
        """Declare a new instance, as TOML; it needs a person: a key is refused."""
        said = given(declaration=declaration, reason=reason, seed=seed)
        return self._one(post("v1", "instances", said=said, is_repeatable=False))

    def pause(self, instance: str, *, reason: str) -> One:
        """Stop proposing at once; asked again where no answer comes, to be on the safe side."""
        return self._one(post("v1", "instances", instance, "pause", said={"reason": reason}))

    def resume(self, instance: str, *, reason: str) -> One:
        """Propose again.

        Where no answer comes back it is not asked again: that might undo a pause that somebody
        else set meanwhile. Look at the instance first.
        """
        said = {"reason": reason}
        return self._one(
            post("v1", "instances", instance, "resume", said=said, is_repeatable=False)
        )

    def acknowledge(self, instance: str, *, reason: str) -> One:
        """Acknowledge that an earlier state of the ledger was put back, so that decisions go on.

        It needs a person: a key is refused. Where no answer comes back it is not asked again: by
        then another one may have been put back.
        """
        said = {"reason": reason}
        return self._one(
            post("v1", "instances", instance, "acknowledge", said=said, is_repeatable=False)
        )

    def retire(self, instance: str, *, reason: str) -> One:
        """End an instance; outcomes may still come. It needs a person: a key is refused."""
        return self._one(post("v1", "instances", instance, "retire", said={"reason": reason}))

    def refit(self, instance: str) -> One:
        """Refit the scaler now."""
        return self._one(post("v1", "instances", instance, "refit", is_repeatable=False))

    def rollback(self, instance: str, *, to: int, reason: str) -> One:
        """Put the learners back to what they knew after `to` entries."""
        said = {"to": to, "reason": reason}
        return self._one(
            post("v1", "instances", instance, "rollback", said=said, is_repeatable=False)
        )

    def discount(
        self, instance: str, *, factor: float, since: int, reason: str, gate: str | None = None
    ) -> One:
        """Let what came before the entry `since` count for `factor` of what it did.

        `gate` names the gate whose learned verdicts are meant; None: what outcomes taught.
        """
        said = given(factor=factor, since=since, gate=gate, reason=reason)
        return self._one(
            post("v1", "instances", instance, "discount", said=said, is_repeatable=False)
        )

    def erase(self, instance: str, subject: str, *, reason: str) -> One:
        """Destroy the keys of a subject's personal fields; the reason stays and must name nobody.

        It needs a person: a key is refused. Where no answer comes back, ask again: 'keys' is then
        0 if it was done.
        """
        said = {"subject": subject, "reason": reason}
        call = post("v1", "instances", instance, "subjects", "erase", said=said)
        # Everything is worked out again before, and a second try would say that nobody was known.
        return self._one(replace(call, is_repeatable=False, slow=_LONG_S))

    def upload_history(
        self,
        instance: str,
        log: Path | str | bytes,
        *,
        kind: str | None = None,
        strict: bool | None = None,
        override: str | None = None,
    ) -> One:
        """Certify a log of past decisions and start from it; returns 'taken' and the certificate.

        Parameters
        ----------
        log : a path that ends in .csv or .parquet, or the bytes themselves
        kind : 'csv' or 'parquet', where the log is given as bytes
        strict : whether one bad row refuses the log
        override : why it is taken although its certificate refuses it
        """
        suffix = f".{kind}" if isinstance(log, bytes) or kind else Path(log).suffix.lower()
        if suffix not in _MEDIA:
            raise InvalidInput(f"log: expected {' or '.join(_MEDIA)}, got {suffix!r}")
        query = given(strict=strict, override=override)
        return self._one(
            Call(
                "POST",
                path_of("v1", "instances", instance, "history"),
                {name: text_of(value) for name, value in query.items()},
                log if isinstance(log, bytes) else Path(log).read_bytes(),
                _MEDIA[suffix],
                is_repeatable=False,
                slow=_LONG_S,
            )
        )

    # Changes under four eyes

    def changes(self, instance: str) -> Many:
        """List the changes that wait for a second pair of eyes."""
        return self._many(get("v1", "instances", instance, "changes"))

    def change(self, instance: str, change: int) -> One:
        """Read one change: who proposed it and why, and what became of it."""
        return self._one(get("v1", "instances", instance, "changes", change))

    def propose_change(self, instance: str, declaration: str, *, reason: str) -> One:
        """Propose another declaration; somebody else must agree."""
        said = {"declaration": declaration, "reason": reason}
        return self._one(
            post("v1", "instances", instance, "changes", said=said, is_repeatable=False)
        )

    def agree(self, instance: str, change: int, *, reason: str = "") -> One:
        """Put a proposed change in force; it needs a person: a key is refused."""
        return self._answer_change(instance, change, "agree", reason)

    def refuse(self, instance: str, change: int, *, reason: str) -> One:
        """Turn a proposed change down, or withdraw one's own."""
        return self._answer_change(instance, change, "refuse", reason)

    def _answer_change(self, instance: str, change: int, answer: str, reason: str) -> One:
        path = ("v1", "instances", instance, "changes", change, answer)
        return self._one(post(*path, said={"reason": reason}, is_repeatable=False))

    # Webhooks

    def webhooks(self, instance: str) -> Many:
        """List the webhooks of an instance, and how they fare."""
        return self._many(get("v1", "instances", instance, "webhooks"))

    def add_webhook(self, instance: str, url: str, kinds: Sequence[str]) -> One:
        """Add a webhook; its secret is in the answer, this once."""
        said = {"url": url, "kinds": list(kinds)}
        return self._one(
            post("v1", "instances", instance, "webhooks", said=said, is_repeatable=False)
        )

    def remove_webhook(self, instance: str, hook: str) -> One:
        """Remove a webhook."""
        path = path_of("v1", "instances", instance, "webhooks", hook)
        return self._one(Call("DELETE", path, is_repeatable=False))

    def rotate_webhook(self, instance: str, hook: str, *, overlap_s: float | None = None) -> One:
        """Replace the secret of a webhook; the new one is in the answer, this once.

        For `overlap_s` seconds messages are signed under both; None: for a day.
        """
        path = path_of("v1", "instances", instance, "webhooks", hook, "rotate")
        query = {name: text_of(value) for name, value in given(overlap_s=overlap_s).items()}
        return self._one(Call("POST", path, query, is_repeatable=False))

    def resume_webhook(self, instance: str, hook: str) -> One:
        """Send again after the receiver was mended, from where it stopped."""
        return self._one(post("v1", "instances", instance, "webhooks", hook, "resume"))
