"""Words of a certificate that are not everyday ones, each explained in a sentence."""

from __future__ import annotations

GLOSSARY = {
    "arm": "one of the actions to choose from, before context adapts it",
    "scaler": "the part that adapts an arm to its context, trained on past data",
    "gate": "a rule or a person who may change, hold or stop a proposal",
    "pass rate": "the share of proposals that a gate lets through unchanged",
    "override": "a proposal that a person replaced by something else",
    "reward law": "what an action earns on average in a given context",
    "bias": "how much too high or too low the contexts in which an arm ran make its mean",
    "margin": "the largest bias that is accepted",
    "interval": "where the true figure probably lies",
    "standard error": "how far a figure may be off by chance alone",
    "effective sample size": "how many evenly spread rows would tell as much as these",
    "counts as (n_eff)": "how many rows an arm's evidence counts as, its bias allowed for",
    "contraction η": "the most of a difference in proposals that gets through a gate: 0, the gate "
    "decides all; 1, it may pass all",
    "hidden cause": "something outside the log that moves both the action and the reward",
    "Λ*": "how many times a hidden cause must multiply the odds of an action before another arm "
    "could be the best",
    "context x": "what was known before the decision",
    "variance ratio": "how much context changes which arm is better, in units of the noise",
    "p": "how often chance alone would give a finding as strong, were nothing wrong",
    "threshold": "a test has found something where p is no larger",
    "family-wise error rate": "the chance of one or more false alarms among all tests",
    "prior": "what is assumed of an arm before any data",
    "fingerprint": "a number (SHA-256) that changes when anything in the log does",
}
