"""The list of promises that every part keeps, to be run on parts of your own.

Every kind of part (bandit, scaler, composition, gate, kernel, reward, arms, domain) has one list;
the parts of this library pass the same one. A check is a plain function that raises with a
sentence, so any test runner will do:

>>> import gdcb
>>> report = check(gdcb.BetaThompson())
>>> report.kind, report.is_conforming
('bandit', True)

With pytest:

    @pytest.mark.parametrize("promise", gdcb.checks.of(MyBandit()), ids=str)
    def test_my_bandit(promise):
        promise()
"""

from gdcb.checks.base import Check, NonConforming, Report, Result
from gdcb.checks.examples import build, names
from gdcb.checks.lists import check, kind_of, of, report

__all__ = [
    "Check",
    "NonConforming",
    "Report",
    "Result",
    "build",
    "check",
    "kind_of",
    "names",
    "of",
    "report",
]
