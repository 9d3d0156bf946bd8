"""Attacks a real node, again and again, and judges every torque it publishes: exit code 1 when one was wrong
or stale, or the node ended, fell silent or did not stop when told to. See docs/how-to/campaigns.md."""

import argparse
import secrets
import signal
import sys
import time
from pathlib import Path
from random import Random

ROOT = Path(__file__).resolve().parents[1]
sys.path[:1] = [
    str(ROOT),
    str(ROOT / "test" / "support"),
]  # not this folder: Python has a `numbers` too

from campaigns.attacks import ATTACKS
from campaigns.target import Dead, Mute, Start, Target
from campaigns.verdict import Outcome, show

LAST_LINES = 4  # of the node's log, with what is said of a failure
DRAWS_OF_A_NODE = 8  # then it is ended, and its exit code looked at


class Campaign:
    """One Target through many draws."""

    def __init__(self, seed, names):
        self.seed, self.names = seed, list(names)
        self.target = Target()
        self.outcomes: list[Outcome] = []
        self._runs, self._uses = False, 0  # whether there is a node, and how many draws it has seen

    def run(self, draw):
        """One draw: which attack, and all that is random in it, depends on seed and draw alone."""
        random = Random(f"{self.seed} {draw}")
        attack = ATTACKS[self._name(draw)]
        outcome = Outcome(attack.name, draw)
        self.outcomes.append(outcome)
        print(f"draw {draw}: {attack.name}", flush=True)
        began = time.monotonic()
        try:
            self._prepare(attack, random, outcome)
            attack.run(self.target, random)
            if not attack.started:
                self.target.serves()
        except Dead:
            outcome.fail("dead", self._last_words())
        except Mute as reason:
            outcome.fail("mute", f"{reason}; {self._last_words()}")
        outcome.take(self.target.watch.report())
        self._uses += 1
        if attack.start or outcome.failures or self._uses >= DRAWS_OF_A_NODE:
            self._end(outcome, attack.codes, random)
        outcome.seconds = time.monotonic() - began
        for words in outcome.words:
            print(f"    {words}", flush=True)

    def _name(self, draw):
        """Every attack comes once, in random order, before any comes again."""
        turn, place = divmod(draw, len(self.names))
        return Random(f"{self.seed} turn {turn}").sample(self.names, len(self.names))[place]

    def _prepare(self, attack, random, outcome):
        """A node that the attack can have, and that serves."""
        if attack.start is not None:
            self._end(outcome, (0,), random)
            self.target.start(attack.start(self.target, random))
        elif not self._runs:
            self.target.start(Start(robot=random.choice(["panda", "heavy", "ur5", "xarm7"])))
        else:
            return
        self._runs, self._uses = True, 0
        if not attack.started:
            self.target.serves()
            self.target.watch.press(True)
            self.target.watch.report()  # what starting took is not the attack's

    def _end(self, outcome, codes, random):
        """End the node that runs, if there is one, and look at its exit code."""
        if not self._runs:
            return
        self._runs = False
        words = self._last_words()
        code, left = self.target.stop(random.choice([signal.SIGINT, signal.SIGTERM]))
        if code not in codes and "dead" not in outcome.failures:
            outcome.fail("dead", f"exit code {code} (None: it did not end on a signal); {words}")
        if left:
            outcome.fail("left", f"after its end: {', '.join(left)}", len(left))

    def close(self):
        """End the last node and all else. Shows the verdict; returns whether all is well."""
        if self._runs:
            last = Outcome("the end", len(self.outcomes))
            self._end(last, (0,), Random(self.seed))
            if last.failures:
                self.outcomes.append(last)
        self.target.close()
        return show(self.outcomes, self.seed)

    def _last_words(self):
        lines = [line.strip()[:200] for line in self.target.process.output().splitlines() if line.strip()]
        words = " | ".join(lines[-LAST_LINES:]) or "nothing"
        return f"exit code {self.target.process.process.poll()}, its last words: {words}"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="campaign node", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="no attack begins later")
    parser.add_argument("--seed", type=int, default=None, help="the same seed draws the same attacks")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, metavar="NAME", help="attacks, by their names")
    parser.add_argument("--draw", type=int, help="this draw of the seed alone; give --only as then")
    parser.add_argument("--list", action="store_true", help="say which attacks there are")
    options = parser.parse_args(arguments)
    if options.list:
        print("\n".join(f"{name}: {' '.join((a.run.__doc__ or '').split())}" for name, a in ATTACKS.items()))
        return 0
    seed = secrets.randbelow(10**6) if options.seed is None else options.seed
    print(f"seed {seed}, {len(ATTACKS)} attacks", flush=True)
    campaign = Campaign(seed, options.only or sorted(ATTACKS))
    end = time.monotonic() + 60 * options.minutes
    draw = options.draw or 0
    try:
        while True:
            campaign.run(draw)
            draw += 1
            if options.draw is not None or time.monotonic() > end:
                break
    except KeyboardInterrupt:
        print("interrupted")
    finally:
        well = campaign.close()
    return 0 if well else 1


if __name__ == "__main__":
    sys.exit(main())
