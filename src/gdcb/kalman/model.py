"""A linear model of tracks: F, H, Q and R, shared, by track, or by step and track."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

from gdcb.arrays import Array
from gdcb.errors import InvalidInput
from gdcb.kalman import square_root


def place(index: tuple[int, ...]) -> str:
    """Put where a matrix stands into words: '' where it is shared, else its track and step."""
    if len(index) == 2:
        return f" (track {index[1]}, step {index[0]})"
    return f" (track {index[0]})" if index else ""


def floats(name: str, value: Any) -> Array:
    """Return real numbers as an array of floats; refuse text, complex numbers and uneven lists.

    >>> floats("z", [1, 2]).tolist()
    [1.0, 2.0]
    >>> floats("z", 1j)
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: z: expected an array of real numbers, got complex128
    """
    try:
        found = np.asarray(value)
        if found.dtype.kind not in "USc":
            return found.astype(float, copy=False)
        what = found.dtype.name
    except (TypeError, ValueError, OverflowError):
        what = type(value).__name__
    raise InvalidInput(f"{name}: expected an array of real numbers, got {what}")


def numbers(name: str, value: Array, is_shape: bool, shape: str) -> Array:
    """Return a value as floats, refused where they are not finite or its shape is wrong."""
    if not is_shape:
        raise InvalidInput(f"{name}: expected shape {shape}, got {np.shape(value)}")
    is_bad = ~np.isfinite(value)
    if is_bad.any():
        at = tuple(int(i) for i in np.argwhere(is_bad)[0])
        where = place(at[:-2]) if value.ndim >= 2 else ""
        raise InvalidInput(f"{name}: expected finite numbers, got {value[at]}{where}")
    return value


def factored(name: str, matrix: Array, is_definite: bool) -> Array:
    """Return the roots of covariances (..., n, n), tracks last; refuse what is none.

    Parameters
    ----------
    name : what to call it in a message
    matrix : (n, n), (N, n, n) or (T, N, n, n)
    is_definite : whether zero eigenvalues are refused too

    Returns
    -------
    root : (n, n, 1), (n, n, N) or (T, n, n, N), by columns
    """
    n = matrix.shape[-1]
    flat = matrix.reshape(-1, n, n)
    last = np.ascontiguousarray(np.moveaxis(flat, 0, -1))
    size = np.sqrt(np.abs(np.einsum("iik->ik", last)))
    is_even = (np.abs(last - last.swapaxes(0, 1)) <= 1e-9 * size[:, None] * size[None]).all((0, 1))
    if not is_even.all():
        at = int(np.argmin(is_even))
        gap = np.abs(flat[at] - flat[at].T).max()
        raise InvalidInput(
            f"{name}: expected a symmetric matrix, got entries that differ by {gap:g} from those "
            f"across the diagonal{_place(matrix, at)}"
        )
    root, is_semidefinite, is_whole = square_root.factor((last + last.swapaxes(0, 1)) / 2)
    is_good = is_whole if is_definite else is_semidefinite
    if not is_good.all():
        at = int(np.argmin(is_good))
        kind = "definite" if is_definite else "semi-definite"
        smallest = float(np.linalg.eigvalsh(flat[at])[0])
        raise InvalidInput(
            f"{name}: expected a positive {kind} matrix, got one whose smallest eigenvalue is "
            f"{smallest:.3g}{_place(matrix, at)}"
        )
    if matrix.ndim < 4:
        return root
    return np.ascontiguousarray(np.moveaxis(root.reshape(n, n, *matrix.shape[:2]), 2, 0))


def tracks_last(matrix: Array) -> Array:
    """Return (..., i, j) as (i, j, 1), (i, j, N) or (T, i, j, N)."""
    if matrix.ndim == 2:
        return matrix[..., None]
    return np.ascontiguousarray(np.moveaxis(matrix, -3, -1))


def _place(matrix: Array, at: int) -> str:
    lead = matrix.shape[:-2]
    return place(tuple(int(i) for i in np.unravel_index(at, lead)) if lead else ())


@dataclass(frozen=True, slots=True, eq=False)
class Model:
    """A linear model: s_{t+1} = F_t s_t + w_t, z_t = H_t s_t + v_t, w ~ N(0, Q), v ~ N(0, R).

    Every matrix is shared (i, j), one a track (N, i, j), or one a step and track (T, N, i, j),
    where N may be 1. Matrix F_t and Q_t of step t move the state from t to t + 1.

    Parameters
    ----------
    transition : F (..., n, n)
    measurement : H (..., m, n)
    process : Q (..., n, n), positive semi-definite
    noise : R (..., m, m), positive definite

    Examples
    --------
    Position and velocity, position measured:

    >>> model = Model([[1, 1], [0, 1]], [[1, 0]], [[0, 0], [0, 0.1]], [[2]])
    >>> model.n_states, model.n_measurements, model.n_steps, model.n_tracks
    (2, 1, None, None)
    >>> Model([[1]], [[1]], [[-1]], [[2]])  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    gdcb.errors.InvalidInput: process: expected a positive semi-definite matrix, got one whose ...
    """

    transition: Array
    measurement: Array
    process: Array
    noise: Array
    process_root: Array = field(init=False, repr=False)
    noise_root: Array = field(init=False, repr=False)

    def __post_init__(self) -> None:
        parts = {}
        for name in ("transition", "measurement", "process", "noise"):
            value = floats(name, getattr(self, name))
            if value.ndim not in (2, 3, 4) or 0 in value.shape:
                raise InvalidInput(
                    f"{name}: expected shape (i, j), (tracks, i, j) or (steps, tracks, i, j), "
                    f"got {value.shape}"
                )
            parts[name] = value
        n, m = parts["transition"].shape[-1], parts["measurement"].shape[-2]
        shapes = {"transition": (n, n), "measurement": (m, n), "process": (n, n), "noise": (m, m)}
        for name, shape in shapes.items():
            value = parts[name]
            numbers(name, value, value.shape[-2:] == shape, f"(..., {shape[0]}, {shape[1]})")
            object.__setattr__(self, name, value)
        for axis, word in ((-4, "steps"), (-3, "tracks")):
            given = {name: v.shape[axis] for name, v in parts.items() if v.ndim >= -axis}
            if len({count for count in given.values() if count > 1}) > 1:
                raise InvalidInput(f"model: expected one number of {word}, got {given}")
        object.__setattr__(self, "process_root", factored("process", self.process, False))
        object.__setattr__(self, "noise_root", factored("noise", self.noise, True))

    @property
    def n_states(self) -> int:
        """Number n of states."""
        return int(self.transition.shape[-1])

    @property
    def n_measurements(self) -> int:
        """Number m of components of a measurement."""
        return int(self.measurement.shape[-2])

    @property
    def n_tracks(self) -> int | None:
        """Number N of tracks that some matrix is given for; None where all are shared."""
        return self._longest(-3)

    @property
    def n_steps(self) -> int | None:
        """Number T of steps that some matrix is given for; None where none changes in time."""
        return self._longest(-4)

    def _longest(self, axis: int) -> int | None:
        parts = (self.transition, self.measurement, self.process, self.noise)
        counts = [part.shape[axis] for part in parts if part.ndim >= -axis]
        return max(counts) if counts and max(counts) > 1 else None
