"""What a device of torch asks for where torch is not installed."""

from __future__ import annotations

import re
import sys
from importlib import import_module
from typing import Any

import pytest

from gdcb import BetaThompson
from gdcb.errors import InvalidInput
from gdcb.simulate import simulate

EXAMPLE: Any = import_module("examples.device_world")


def test_a_device_without_torch_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is wrong input with a way out, no missing module."""
    monkeypatch.setitem(sys.modules, "torch", None)
    text = 'device: needs torch; pip install "gdcb[torch]", or leave device out'
    run: Any = {"rounds": 1, "replicates": 1, "device": "cuda"}
    with pytest.raises(InvalidInput, match=re.escape(text)):
        simulate(EXAMPLE.pricing(), BetaThompson(), EXAMPLE.Nights(), **run)


def test_the_example_prints_no_negative_zero(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Parts that round to nothing are 0.00, whatever their sign was."""
    asked = ["device_world.py", "--rounds", "1", "--replicates", "2"]
    monkeypatch.setattr(sys, "argv", asked)
    tiny = EXAMPLE.regret_parts

    def parts(*arguments: Any) -> Any:
        found = tiny(*arguments)
        found.gate[:] = -1e-9
        return found

    monkeypatch.setattr(EXAMPLE, "regret_parts", parts)
    EXAMPLE.main()
    assert capsys.readouterr().out.strip().endswith("gate 0.00")
