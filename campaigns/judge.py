"""Every published torque is judged: right for its stamp, of fresh input, and not after a stop."""

from collections import Counter, OrderedDict
from typing import NamedTuple

import numpy as np

from campaigns.references import AGREEMENT

REMEMBERED = 20_000  # states sent
KEPT = 20  # examples of what was wrong
FINEST = 1e-5  # s, of the latencies' classes


class Finding(NamedTuple):
    """kind: wrong, stale or stopped; what: for people."""

    kind: str
    what: str


class Judge:
    """allowed: the Configurations that may be in force; timeout: joint_state_timeout and the margin, s;
    waited(begin, end): seconds between two times, ns, in which the node had no core."""

    def __init__(self, references, timeout, waited=lambda begin, end: 0.0):
        self._references, self._timeout, self._waited = references, timeout, waited
        self.allowed = set()
        self._sent: OrderedDict[int, int] = OrderedDict()
        self._began = None
        self._last = None
        self.clear()

    def clear(self):
        """Count anew."""
        self.counts, self.findings = Counter(), []
        self.latencies = Counter()

    def sent(self, stamp, done):
        """A state was published: its stamp, and when the publisher had let it go, ns."""
        self._began = self._began or stamp
        self._sent[stamp] = done
        if len(self._sent) > REMEMBERED:
            self._sent.popitem(last=False)

    def torque(self, stamp, names, efforts, published):
        """A torque that the node published at a time, ns. Returns whether it is right."""
        self.counts["torques"] += 1
        order = sorted(self.allowed, key=lambda configuration: configuration != self._last)
        errors = {}
        for configuration in order:
            errors[configuration] = self._references.error(configuration, stamp, names, efforts)
            if errors[configuration] <= AGREEMENT:
                if not configuration.held:
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
        self._find("wrong", f"stamp {stamp}, {len(names)} joints: {off}")
        return False

    def _judge_age(self, stamp, published):
        sent = self._sent.get(stamp)
        if sent is None and not (self._began and self._began <= stamp <= published):
            return  # the stamp of a hostile state says nothing about its age
        age = (published - (sent or stamp)) * 1e-9
        self.latencies[int(np.ceil(max(age, 0.0) / FINEST))] += 1
        if age > self._timeout and age - self._waited(sent or stamp, published) > self._timeout:
            self._find("stale", f"stamp {stamp}: its state was {age:.3f} s old")

    def after_stop(self, seconds):
        """A torque came after the node had said that it is disabled."""
        self._find("stopped", f"published {seconds:.3f} s after the answer that it is disabled")

    def _find(self, kind, what):
        self.counts[kind] += 1
        if self.counts[kind] <= KEPT:
            self.findings.append(Finding(kind, what))

    def percentile(self, percent):
        """Seconds from sending a state to publishing its torque, NaN without any."""
        classes = sorted(self.latencies)
        if not classes:
            return float("nan")
        total = np.cumsum([self.latencies[k] for k in classes])
        return classes[int(np.searchsorted(total, percent / 100 * total[-1]))] * FINEST
