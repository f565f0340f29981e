"""An index of the few entries that say which rules are in force."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0004"
down_revision = "0003"
branch_labels = None
depends_on = None

_ACTS = (
    "kind IN ('InstanceChanged', 'ChangeProposed', 'ChangeRefused', 'Paused', 'Resumed', "
    "'Retired', 'LedgerSetBack', 'SetBackAcknowledged')"
)


def upgrade() -> None:
    """Make the index."""
    op.create_index(
        "entries_acts",
        "entries",
        ["chain", "seq"],
        sqlite_where=sa.text(_ACTS),
        postgresql_where=sa.text(_ACTS),
    )


def downgrade() -> None:
    """Drop the index."""
    op.drop_index("entries_acts", "entries")
