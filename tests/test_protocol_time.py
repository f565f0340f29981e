"""The table of the protocol's time and memory: its arithmetic, and one run that is tiny."""

from __future__ import annotations

import mmap
import subprocess
import sys
from pathlib import Path

import pytest

from benchmarks import protocol_time
from benchmarks.protocol_time import Cost, Size, cost_of, linearity, main, table, tree_memory

linux_only = pytest.mark.skipif(sys.platform != "linux", reason="memory is read from /proc")
posix_only = pytest.mark.skipif(sys.platform == "win32", reason="no CPU time of children")

# A process that waits for one of its own, which holds 64 MiB for a second and works for a while.
WORK = """
import time
held = b"x" * 2**26
end = time.perf_counter() + 1.2
while time.process_time() < 0.4:
    pass
time.sleep(max(0.0, end - time.perf_counter()))
"""
PARENT = f"import subprocess, sys; subprocess.run([sys.executable, '-c', {WORK!r}], check=True)"


def process(proc: Path, pid: int, parent: int, pages: int | None, name: str = "python") -> None:
    """Write what Linux would say of a process; None: it ended before its memory was read."""
    folder = proc / str(pid)
    folder.mkdir()
    (folder / "stat").write_text(f"{pid} ({name}) S {parent} 1 1 0", encoding="utf-8")
    if pages is not None:
        (folder / "statm").write_text(f"9999 {pages} 5 1 0 40 0", encoding="utf-8")


def test_memory_is_that_of_a_process_and_all_below_it(tmp_path: Path) -> None:
    """The root's 100 pages, its child's 20 and its grandchild's 3; neither parent nor stranger."""
    (tmp_path / "self").mkdir()
    (tmp_path / "self" / "statm").write_text("9999 7 5 1 0 40 0", encoding="utf-8")
    process(tmp_path, 1, 0, 4000)
    process(tmp_path, 50, 1, 100)
    process(tmp_path, 7, 50, 20, name="a) S 1 (b")
    process(tmp_path, 51, 7, 3)
    process(tmp_path, 52, 50, None)
    process(tmp_path, 53, 1, 5000)
    assert tree_memory(50, tmp_path) == 123 * mmap.PAGESIZE
    assert tree_memory(51, tmp_path) == 3 * mmap.PAGESIZE


def test_memory_is_not_known_without_proc(tmp_path: Path) -> None:
    assert tree_memory(50, tmp_path) is None


@linux_only
def test_a_cost_has_the_descendants_in_it() -> None:
    """The command itself only waits."""
    cost = cost_of([sys.executable, "-c", PARENT])
    assert cost.wall > 1.0
    assert cost.cpu is not None
    assert cost.cpu > 0.4
    assert cost.memory is not None
    assert 2**26 < cost.memory < 2**26 + 2**27


@posix_only
def test_the_cost_of_one_command_has_no_other_in_it() -> None:
    """CPU time is a difference: an earlier child's is not in it."""
    subprocess.run([sys.executable, "-c", PARENT], check=True)
    cost = cost_of([sys.executable, "-c", ""])
    assert cost.cpu is not None
    assert 0.0 <= cost.cpu < 0.4


def test_a_command_that_fails_has_no_cost() -> None:
    with pytest.raises(subprocess.CalledProcessError, match="exit status 3"):
        cost_of([sys.executable, "-c", "raise SystemExit(3)"])


def test_rows_of_the_table() -> None:
    """2.6 s over 10 · 100 · 26 = 26,000 units are 100 µs each."""
    costs = [
        (Size(10, 100), Cost(1.44, 2.6, 812_000_000)),
        (Size(500, 1500), Cost(1234.5, 2345.6, 1_999_000_000)),
        (Size(1, 1), Cost(9.0, None, None)),
    ]
    rows = table(costs, 26).splitlines()
    assert rows[1:] == [
        "|---|---|---|---|---|",
        "| 10 × 100 | 1.4 s | 2.6 s | 100 µs | 0.81 GB |",
        "| 500 × 1,500 | 1,234 s | 2,346 s | 120 µs | 2.00 GB |",
        "| 1 × 1 | 9.0 s | not known | not known | not known |",
    ]
    assert rows[0].count("|") == 6


def line(size: Size) -> Cost:
    """Return a cost on a line: 10 s and 1 ms a pair, two cores at work in the second part."""
    return Cost(10.0 + 1e-3 * size.pairs, 10.0 + 2e-3 * size.pairs, None)


def test_a_line_is_found_again() -> None:
    """CPU: 30 s for 10,000 pairs are 3 ms; 90 s for 40,000 are 2.25 ms, 0.75 of it."""
    sizes = (Size(200, 200), Size(100, 100), Size(100, 200))
    assert linearity([(size, line(size)) for size in sizes]) == (
        "Linearity: time is 10.0 s + 1 ms × replicates × episodes, every size within 0%; "
        "CPU time a replicate and episode at 200 × 200 is 0.75 of that at 100 × 100."
    )


def test_a_bend_is_seen() -> None:
    """Time that grows with the square is far off any line."""
    sizes = (Size(100, 100), Size(100, 200), Size(100, 400), Size(100, 800))
    said = linearity([(size, Cost(1e-8 * size.pairs**2, None, None)) for size in sizes])
    assert int(said.partition("within ")[2].partition("%")[0]) > 20
    assert "time a replicate and episode at 100 × 800 is 8.00 of that at 100 × 100" in said


def test_few_sizes_make_no_line() -> None:
    """Two points always lie on one; one says nothing."""
    one, two = ((size, line(size)) for size in (Size(100, 100), Size(200, 200)))
    assert linearity([one]) == linearity([one, one]) == "Linearity: one size says nothing about it."
    assert linearity([one, two]).startswith("Linearity: CPU time a replicate and episode at 200")


@pytest.mark.parametrize("text", ["100", "100x", "x100", "0x10", "-1x10", "1.5x10", "10x10x10"])
def test_sizes_that_are_none_are_refused(text: str, capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main([f"--size={text}"])
    assert stopped.value.code == 2
    assert f"expected REPLICATESxEPISODES, got '{text}'" in capsys.readouterr().err


def test_unknown_methods_are_refused_before_any_work(capsys: pytest.CaptureFixture[str]) -> None:
    with pytest.raises(SystemExit) as stopped:
        main(["--methods", "B1,B9"])
    assert stopped.value.code == 2
    assert "no method 'B9'; there are B1" in capsys.readouterr().err


def test_a_run_that_fails_ends_the_command(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(size: Size, methods: object) -> Cost:
        raise subprocess.CalledProcessError(1, ["gdcb", "run"])

    monkeypatch.setattr(protocol_time, "protocol", broken)
    with pytest.raises(SystemExit, match="gdcb run ended with code 1: gdcb run"):
        main(["--size", "2x3"])


def test_a_tiny_run(capfd: pytest.CaptureFixture[str]) -> None:
    """Two methods: A4 is B4flat by another name, and runs once."""
    main(["--size", "2x3", "--methods", "B1,B4flat,A4"])
    out, err = capfd.readouterr()
    said, heads, rule, row, last = [text for text in out.splitlines() if text]
    assert said.startswith("2 methods, `--engine pool` on ")
    assert heads.startswith("| replicates × episodes | time |")
    assert rule == "|---|---|---|---|---|"
    assert row.startswith("| 2 × 3 | ")
    assert last == "Linearity: one size says nothing about it."
    assert "1 of 1: 2 × 3 took " in err
    if sys.platform == "linux":
        assert "not known" not in out
