"""Run the steps that are missing, on the connection and in the transaction that is given."""

from __future__ import annotations

from alembic import context

from gdcb.ledger.tables import VERSION_TABLE, metadata


def run() -> None:
    """Run them; `gdcb.ledger.migrate` has opened the transaction and holds the lock."""
    context.configure(
        connection=context.config.attributes["connection"],
        target_metadata=metadata,
        version_table=VERSION_TABLE,
        render_as_batch=True,
    )
    with context.begin_transaction():
        context.run_migrations()


# Alembic loads this file under that name; whoever else imports it only looks.
if __name__ == "env_py":
    run()
