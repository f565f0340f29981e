"""What the service keeps beside the ledger: claims, webhooks, cursors, keys of personal fields."""

from __future__ import annotations

import sqlalchemy as sa
from alembic import op

revision = "0003"
down_revision = "0002"
branch_labels = None
depends_on = None


def upgrade() -> None:
    """Make the tables."""
    op.create_table(
        "claims",
        sa.Column("chain", sa.String(200), primary_key=True),
        sa.Column("id", sa.String(200), primary_key=True),
        sa.Column("by", sa.Text, nullable=False),
        sa.Column("until", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "cursors",
        sa.Column("chain", sa.String(200), primary_key=True),
        sa.Column("name", sa.String(40), primary_key=True),
        sa.Column("seq", sa.BigInteger, nullable=False),
    )
    op.create_table(
        "hooks",
        sa.Column("id", sa.String(40), primary_key=True),
        sa.Column("chain", sa.String(200), nullable=False),
        sa.Column("url", sa.Text, nullable=False),
        sa.Column("kinds", sa.Text, nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("made_by", sa.Text, nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
        sa.Column("cursor", sa.BigInteger, nullable=False),
        sa.Column("is_on", sa.Boolean, nullable=False),
        sa.Column("failures", sa.Integer, nullable=False),
        sa.Column("next_at", sa.BigInteger, nullable=False),
        sa.Column("last_error", sa.Text, nullable=False),
        sa.Column("leased_until", sa.BigInteger, nullable=False),
        sa.Column("leased_by", sa.String(80), nullable=False),
    )
    op.create_index("ix_hooks_chain", "hooks", ["chain"])
    op.create_table(
        "subject_keys",
        sa.Column("key", sa.String(40), primary_key=True),
        sa.Column("chain", sa.String(200), nullable=False),
        sa.Column("subject", sa.String(200), nullable=False),
        sa.Column("secret", sa.LargeBinary, nullable=False),
        sa.Column("made_at", sa.BigInteger, nullable=False),
    )
    op.create_index("ix_subject_keys_subject", "subject_keys", ["subject"])
