"""Words of a certificate that are not everyday ones, each explained in a sentence."""

from __future__ import annotations

GLOSSARY = {
    "arm": "one of the actions to choose from, before context adapts it",
    "scaler": "the part that adapts an arm to its context, trained on past data",
    "gate": "a rule or a person who may change, hold or stop a proposal before it is executed",
    "pass rate": "the share of proposals that a gate lets through unchanged",
    "reward law": "what an action earns on average in a given context",
    "bias": "by how much the contexts in which an arm ran make its mean too high or too low",
    "margin": "the largest bias that is accepted",
    "interval": "the range in which the true figure probably lies",
    "standard error": "how far an arm's mean may be off by chance alone",
    "effective sample size": "how many evenly spread rows would tell as much as these rows do",
    "counts as": "how many rows an arm's evidence is given, once its bias is allowed for (n_eff)",
    "contraction η": "the most of a difference in proposals that can get through a gate; at 0 the "
    "gate decides all, at 1 it may pass all",
    "override": "a proposal that a person replaced by something else",
    "hidden cause": "something outside the log that moves both the action and the reward",
    "p": "how often a finding at least as strong would arise by chance if nothing were wrong",
    "threshold": "a test counts as a finding where p is below it",
    "prior": "what is assumed of an arm before any data",
    "fingerprint": "a number (SHA-256) that changes when anything in the log changes",
}
