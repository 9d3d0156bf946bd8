"""Attacks on a node, by subject; ATTACKS has them all."""

from importlib import import_module

from campaigns.attacks.table import ATTACKS, Attack

SUBJECTS = ("messages", "services", "payloads", "parameters", "descriptions", "files", "machine", "life")
for subject in SUBJECTS:
    import_module(f"{__name__}.{subject}")

__all__ = ["ATTACKS", "Attack"]
