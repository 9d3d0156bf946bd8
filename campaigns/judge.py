"""Checks of published torques: right for their stamp, from fresh input, and not after a stop."""

from collections import Counter, OrderedDict
from typing import NamedTuple

import numpy as np

from campaigns.references import AGREEMENT

MOST_STATES = 20_000  # sent states in memory
MOST_FINDINGS = 20  # per kind
RESOLUTION = 1e-5  # s, of the histogram of latencies


class Finding(NamedTuple):
    """kind: wrong, stale or stopped; what: a text."""

    kind: str
    what: str


class Judge:
    """allowed: the valid Configurations; timeout: joint_state_timeout plus the margin, s; waited(begin, end):
    seconds between two times, ns, in which the node had no core."""

    def __init__(self, references, timeout, waited=lambda begin, end: 0.0):
        self._references, self._timeout, self._waited = references, timeout, waited
        self.allowed = set()
        self._sent: OrderedDict[int, int] = OrderedDict()
        self._began = None
        self._last = None
        self.clear()

    def clear(self):
        """Reset the counts."""
        self.counts, self.findings = Counter(), []
        self.latencies = Counter()

    def sent(self, stamp, done):
        """Add a published state: its stamp and the end of its publication, ns."""
        self._began = self._began or stamp
        self._sent[stamp] = done
        if len(self._sent) > MOST_STATES:
            self._sent.popitem(last=False)

    def torque(self, stamp, names, efforts, published):
        """Check a torque with its publication time, ns. Returns whether it is right."""
        self.counts["torques"] += 1
        order = sorted(self.allowed, key=lambda configuration: configuration != self._last)
        errors = {}
        for configuration in order:
            errors[configuration] = self._references.error(configuration, stamp, names, efforts)
            if errors[configuration] <= AGREEMENT:
                if not configuration.at_rest:
                    self._judge_age(stamp, published)
                self._last = configuration
                self.counts["right"] += 1
                self.counts[configuration] += 1
                return True
        self._judge_age(stamp, published)
        nearest = min(
            errors, key=lambda each: (errors[each], not self._references.fits(each, names)), default=None
        )
        off = f"{errors[nearest]:.3g} from {nearest}" if nearest else "none is expected"
        self._add_finding("wrong", f"stamp {stamp}, {len(names)} joints: {off}")
        return False

    def _judge_age(self, stamp, published):
        sent = self._sent.get(stamp)
        if sent is None and not (self._began and self._began <= stamp <= published):
            return  # the stamp of a hostile state has no age
        age = (published - (sent or stamp)) * 1e-9
        self.latencies[int(np.ceil(max(age, 0.0) / RESOLUTION))] += 1
        if age > self._timeout and age - self._waited(sent or stamp, published) > self._timeout:
            self._add_finding("stale", f"stamp {stamp}: its state was {age:.3f} s old")

    def after_stop(self, seconds):
        """Add a torque that was published after the node replied that it is disabled."""
        self._add_finding("stopped", f"published {seconds:.3f} s after the reply that the node is disabled")

    def _add_finding(self, kind, what):
        self.counts[kind] += 1
        if self.counts[kind] <= MOST_FINDINGS:
            self.findings.append(Finding(kind, what))

    def percentile(self, percent):
        """Percentile of the delay from a state to its torque, s; NaN without torques."""
        classes = sorted(self.latencies)
        if not classes:
            return float("nan")
        total = np.cumsum([self.latencies[k] for k in classes])
        return classes[int(np.searchsorted(total, percent / 100 * total[-1]))] * RESOLUTION
