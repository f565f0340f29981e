"""What is asked of a run, and the tasks that it falls into."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from gdcb.errors import InvalidInput
from gdcb.parts import check_number, check_text

# Replicates that share a random stream. Part of every stored seed: never change it.
BLOCK = 100
# Two blocks at once cost an eighth to a quarter less than one after the other, though every worker
# then works out what both share. So they go together where there are two, or enough to share out,
# and few enough episodes to hold them in memory. Of three, half the work would be left over.
_MANY, _SHORT = 4, 250
GROUND = ""  # stands where a method's key would

Value = bool | int | float | str
Options = tuple[tuple[str, Value], ...]


@dataclass(frozen=True, slots=True)
class Task:
    """One method on one or two blocks of replicates; its result depends on nothing else.

    Parameters
    ----------
    name, variant, options : the instance, its world and the world's (name, value) options
    seed : of all random numbers of the run
    episodes : T
    block : number b of the first block; its replicates are those from b × 100 on
    replicates : 1 to 200
    method : key such as 'B4'; '' asks for what all methods share there (`Ground`)
    """

    name: str
    variant: str
    options: Options
    seed: int
    episodes: int
    block: int
    replicates: int
    method: str

    @property
    def key(self) -> str:
        """The task's name within its run, fit for a file: b0003-B4."""
        return f"b{self.block:04d}-{self.method or 'ground'}"


@dataclass(frozen=True, slots=True)
class Settings:
    """All that a run's result depends on.

    Parameters
    ----------
    name, variant, options : the instance, its world and the world's (name, value) options
    episodes, replicates : T and R
    seed : of all random numbers
    methods : keys, in the order of the report
    version : of gdcb

    Examples
    --------
    250 replicates are two blocks of 100 and one of 50; each has one task more than methods.

    >>> settings = Settings("str", "well", (), 200, 250, 0, ("B1", "B4"), "0.1.0")
    >>> [(task.key, task.replicates) for task in settings.tasks][-3:]
    [('b0002-ground', 50), ('b0002-B1', 50), ('b0002-B4', 50)]
    """

    name: str
    variant: str
    options: Options
    episodes: int
    replicates: int
    seed: int
    methods: tuple[str, ...]
    version: str

    def __post_init__(self) -> None:
        for field in ("name", "variant", "version"):
            check_text(f"Settings.{field}", getattr(self, field))
        for field, low in (("episodes", 1), ("replicates", 1), ("seed", 0)):
            value = getattr(self, field)
            check_number(f"Settings.{field}", value, low=low)
            if not isinstance(value, int):
                raise InvalidInput(f"Settings.{field}: expected a whole number, got {value}")
        if self.seed >= 2**64:
            raise InvalidInput(f"Settings.seed: expected at most 2**64 - 1, got {self.seed}")
        if not self.methods:
            raise InvalidInput("Settings.methods: expected one key at least, got none")
        for key in self.methods:
            # Keys name files, on systems too that take b4 and B4 for one.
            if not re.fullmatch("[A-Z][A-Za-z0-9]*", key):
                raise InvalidInput(f"Settings.methods: expected keys such as B4, got {key!r}")
        if len({key.lower() for key in self.methods}) < len(self.methods):
            raise InvalidInput(f"Settings.methods: a key twice in {', '.join(self.methods)}")
        if len({name for name, _ in self.options}) < len(self.options):
            raise InvalidInput(f"Settings.options: a name twice in {self.options}")
        for name, value in self.options:
            check_text("Settings.options", name)
            if isinstance(value, float) and not math.isfinite(value):
                raise InvalidInput(f"Settings.options: expected a finite {name}, got {value}")

    @property
    def blocks(self) -> range:
        """The first block of every method's tasks, in order; the last block may be smaller."""
        n = -(-self.replicates // BLOCK)
        is_paired = (n == 2 or n >= _MANY) and self.episodes <= _SHORT
        return range(0, n, 2 if is_paired else 1)

    @property
    def tasks(self) -> list[Task]:
        """All tasks, block by block, so that a worker can keep what a block's methods share."""
        keys = (GROUND, *self.methods)
        return [self.task(block, key) for block in self.blocks for key in keys]

    def task(self, block: int, method: str) -> Task:
        """Return the task of one method that begins with this block."""
        size = min(self.blocks.step * BLOCK, self.replicates - block * BLOCK)
        return Task(
            self.name, self.variant, self.options, self.seed, self.episodes, block, size, method
        )
