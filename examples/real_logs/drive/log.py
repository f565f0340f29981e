"""Read a drive: pseudoranges, wheel odometry and ground truth, from three tables or from libRSF's.

The tables are `*pseudoranges.csv`, `*odometry.csv` and `*groundtruth.csv` (or `.csv.gz`), with the
columns below. libRSF's files, `*_Input.txt` and `*_GT.txt`, have a measurement a line: its kind
('pseudorange3', 'odom3', 'point3') and the same columns in the same order.
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

import numpy as np
import polars as pl

from gdcb.arrays import Array
from gdcb.errors import InvalidInput

# Columns that are read, in the order of libRSF's lines.
COLUMNS = {
    "pseudoranges": ("t", "rho", "var", "sx", "sy", "sz", "sat", "sys", "elev", "cn0"),
    "odometry": ("t", "vx", "vy", "vz", "wx", "wy", "wz"),
    "groundtruth": ("t", "x", "y", "z"),
}
KINDS = {"pseudorange3": "pseudoranges", "odom3": "odometry", "point3": "groundtruth"}
SYSTEMS = {1: "GPS", 2: "SBAS", 4: "GLONASS", 8: "Galileo", 16: "QZSS", 32: "BeiDou"}
_NEAREST, _FURTHEST = 1e7, 1e8  # metres from the Earth's centre: a navigation satellite


@dataclass(frozen=True, slots=True)
class Drive:
    """A drive: T epochs, and M pseudoranges in the order of time.

    Parameters
    ----------
    time : (T,) seconds, rising
    first : (T + 1,) where each epoch's pseudoranges begin among the M
    ranges, variance : (M,) pseudoranges in m, and what the receiver says of them, m²
    satellite : (M, 3) positions of satellites at sending, Earth-fixed, m
    number, system : (M,) the satellite's number, and its system as a place in `systems`
    elevation, cn0 : (M,) degrees; carrier-to-noise density, dB-Hz
    speed, turn : (T,) m/s along the car, rad/s to the left
    truth : (T, 3) Earth-fixed, m; nothing but the score may read it
    systems : names of the satellite systems, one receiver clock each
    """

    time: Array
    first: Array
    ranges: Array
    variance: Array
    satellite: Array
    number: Array
    system: Array
    elevation: Array
    cn0: Array
    speed: Array
    turn: Array
    truth: Array
    systems: tuple[str, ...]

    @property
    def n(self) -> int:
        """Number of epochs T."""
        return int(self.time.size)

    def rows(self, epoch: int) -> slice:
        """Return where the pseudoranges of an epoch stand."""
        return slice(int(self.first[epoch]), int(self.first[epoch + 1]))


def read(folder: Path) -> Drive:
    """Read the drive in a folder, or refuse it with what was expected and what came."""
    if not folder.is_dir():
        raise InvalidInput(f"path: expected a folder with the drive's files, got {folder}")
    inputs = sorted(folder.glob("*_Input.txt"))
    if inputs:
        tables = _lines([_only(folder, "*_Input.txt"), _only(folder, "*_GT.txt")])
    else:
        tables = {name: _table(_only(folder, f"*{name}.csv*"), name) for name in COLUMNS}
    return drive_of(tables["pseudoranges"], tables["odometry"], tables["groundtruth"])


def drive_of(pseudoranges: Array, odometry: Array, truth: Array) -> Drive:
    """Return the drive of three tables (rows, columns as in `COLUMNS`), checked.

    Epochs are the times of the odometry; every one needs its ground truth, and pseudoranges may be
    absent from some but are at no other time.
    """
    for name, table in zip(COLUMNS, (pseudoranges, odometry, truth), strict=True):
        if table.shape[0] < 2 or not np.isfinite(table).all():
            bad = int(np.count_nonzero(~np.isfinite(table).all(axis=1)))
            raise InvalidInput(
                f"{name}: expected two or more rows of finite numbers, got {table.shape[0]} rows "
                f"of which {bad} are not finite"
            )
    time = odometry[:, 0]
    if not (np.diff(time) > 0).all():
        raise InvalidInput("odometry.t: expected rising times, each once")
    if truth.shape[0] != time.size or not np.array_equal(truth[:, 0], time):
        raise InvalidInput(
            f"groundtruth.t: expected the {time.size} times of the odometry, got "
            f"{truth.shape[0]} times, {np.isin(truth[:, 0], time).sum()} of them among those"
        )
    rows = pseudoranges[np.argsort(pseudoranges[:, 0], kind="stable")]
    is_known = np.isin(rows[:, 0], time)
    if not is_known.all():
        raise InvalidInput(
            f"pseudoranges.t: expected times of the odometry, got {rows[~is_known, 0][0]:g}"
        )
    height = np.linalg.norm(rows[:, 3:6], axis=1)
    if not ((height > _NEAREST) & (height < _FURTHEST)).all():
        raise InvalidInput(
            "pseudoranges.sx, sy, sz: expected Earth-fixed metres, 10,000 to 100,000 km from the "
            f"Earth's centre, got {height.min() / 1e3:,.0f} to {height.max() / 1e3:,.0f} km"
        )
    if not (rows[:, 2] > 0).all():
        raise InvalidInput("pseudoranges.var: expected variances above 0 m²")
    codes, system = np.unique(rows[:, 7].astype(int), return_inverse=True)
    return Drive(
        time=time,
        first=np.append(np.searchsorted(rows[:, 0], time), rows.shape[0]),
        ranges=rows[:, 1],
        variance=rows[:, 2],
        satellite=rows[:, 3:6],
        number=rows[:, 6].astype(int),
        system=system,
        elevation=rows[:, 8],
        cn0=rows[:, 9],
        speed=odometry[:, 1],
        turn=odometry[:, 6],
        truth=truth[:, 1:4],
        systems=tuple(SYSTEMS.get(int(code), f"system {code}") for code in codes),
    )


def _only(folder: Path, pattern: str) -> Path:
    found = sorted(folder.glob(pattern))
    if len(found) != 1:
        names = ", ".join(one.name for one in found) or "none"
        raise InvalidInput(f"{folder}: expected one file named {pattern}, got {names}")
    return found[0]


def _table(path: Path, name: str) -> Array:
    wanted = COLUMNS[name]
    try:
        frame = pl.read_csv(path, infer_schema_length=None)
    except (pl.exceptions.PolarsError, OSError) as error:
        said = str(error).splitlines()[0]
        raise InvalidInput(f"{path.name}: expected a table as CSV, got: {said}") from error
    missing = [column for column in wanted if column not in frame.columns]
    if missing:
        raise InvalidInput(
            f"{path.name}: expected the columns {', '.join(wanted)}; {', '.join(missing)} not "
            f"among {', '.join(frame.columns)}"
        )
    words = [column for column in wanted if not frame[column].dtype.is_numeric()]
    if words:
        raise InvalidInput(f"{path.name}: expected numbers in the column {words[0]}, got words")
    return frame.select(pl.col(wanted).cast(pl.Float64).fill_null(np.nan)).to_numpy()


def _lines(paths: list[Path]) -> dict[str, Array]:
    found: dict[str, list[list[float]]] = {name: [] for name in COLUMNS}
    for path in paths:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            kind, *words = line.split() or [""]
            if kind not in KINDS:
                continue
            name = KINDS[kind]
            try:
                values = [float(word) for word in words[: len(COLUMNS[name])]]
            except ValueError:
                values = []
            if len(values) != len(COLUMNS[name]):
                raise InvalidInput(
                    f"{path.name}, line {number}: expected {kind} and the numbers "
                    f"{', '.join(COLUMNS[name])}, got {line[:60]!r}"
                )
            found[name].append(values)
    tables = {
        name: np.array(sorted(rows, key=lambda row: row[0]), dtype=float).reshape(
            -1, len(COLUMNS[name])
        )
        for name, rows in found.items()
    }
    # Versions of these files differ by an epoch at an end, of which one kind knows nothing.
    shared = np.intersect1d(tables["odometry"][:, 0], tables["groundtruth"][:, 0])
    return {name: table[np.isin(table[:, 0], shared)] for name, table in tables.items()}
