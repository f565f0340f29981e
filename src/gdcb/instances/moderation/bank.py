"""The bank: 4,000 posts of the generator with their features, computed once with the real model.

`python -m gdcb.instances.moderation.bank` makes it again.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from pathlib import Path

import numpy as np

from gdcb.arrays import Array
from gdcb.instances.moderation import features
from gdcb.instances.moderation.generator import posts

SIZE, SEED = 4_000, 20_261_115
PATH = Path(__file__).parent / "bank.npz"


@dataclass(frozen=True, eq=False)
class Bank:
    """Posts from which contexts are drawn.

    Parameters
    ----------
    x : (P, 12) features of the texts
    parts : (P, 3) attack, threat and vulgarity
    reach, reports : (P,) where they are known of each post; None: they are drawn
    """

    x: Array
    parts: Array
    reach: Array | None = None
    reports: Array | None = None

    @property
    def n(self) -> int:
        """Number of posts."""
        return int(self.x.shape[0])


def texts(n: int = SIZE) -> list[str]:
    """Return the texts of the bank's first posts."""
    return [post.text for post in posts(n, SEED)]


@cache
def shipped() -> Bank:
    """Return the bank that comes with the package."""
    with np.load(PATH, allow_pickle=False) as stored:
        return Bank(stored["x"].astype(float), stored["parts"].astype(float))


def make(n: int = SIZE) -> Bank:
    """Build the posts and ask the model about each."""
    some = posts(n, SEED)
    parts = np.array([post.parts for post in some])
    return Bank(features.of_all([post.text for post in some]), parts)


def main() -> None:
    """Write the bank beside this file."""
    made = make()
    # Single precision: the features are no better than that, and the file is half as large.
    np.savez_compressed(
        PATH, x=made.x.astype(np.float32), parts=np.round(made.parts, 4).astype(np.float32)
    )


if __name__ == "__main__":
    main()
