"""Attacks a node repeatedly and checks every published torque. Exit code 1: a torque was wrong or stale, or
the node ended, stopped publishing or ignored set_enabled. See docs/how-to/campaigns.md."""

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
]  # not this folder: its `numbers` would shadow that of Python

from campaigns.attacks import ATTACKS
from campaigns.target import Dead, Mute, Start, Target
from campaigns.verdict import Outcome, show

LAST_LINES = 4  # of the log of the node, in a failure report
DRAWS_OF_A_NODE = 8  # after which it is stopped and its exit code checked


class Campaign:
    """Many draws on one Target."""

    def __init__(self, seed, names):
        self.seed, self.names = seed, list(names)
        self.target = Target()
        self.outcomes: list[Outcome] = []
        self._runs, self._uses = False, 0  # whether a node runs, and its number of draws

    def run(self, draw):
        """Run one draw. The attack and its random numbers depend only on seed and draw."""
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
            outcome.fail("dead", self._end_of_log())
        except Mute as reason:
            outcome.fail("mute", f"{reason}; {self._end_of_log()}")
        outcome.take(self.target.watch.report())
        self._uses += 1
        if attack.start or outcome.failures or self._uses >= DRAWS_OF_A_NODE:
            self._end(outcome, attack.codes, random)
        outcome.seconds = time.monotonic() - began
        for text in outcome.words:
            print(f"    {text}", flush=True)

    def _name(self, draw):
        """Name of the attack: all attacks once in random order, then again."""
        turn, place = divmod(draw, len(self.names))
        return Random(f"{self.seed} turn {turn}").sample(self.names, len(self.names))[place]

    def _prepare(self, attack, random, outcome):
        """Start a node for the attack, if necessary, and wait until it serves."""
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
            self.target.watch.set_pressing(True)
            self.target.watch.report()  # exclude the start from the report

    def _end(self, outcome, codes, random):
        """Stop the node, if it runs, and check its exit code."""
        if not self._runs:
            return
        self._runs = False
        text = self._end_of_log()
        code, left = self.target.stop(random.choice([signal.SIGINT, signal.SIGTERM]))
        if code not in codes and "dead" not in outcome.failures:
            outcome.fail("dead", f"exit code {code} (None: the signal did not end it); {text}")
        if left:
            outcome.fail("left", f"after its end: {', '.join(left)}", len(left))

    def close(self):
        """Stop the node and its client, and print the verdict. Returns whether there was no failure."""
        if self._runs:
            last = Outcome("the end", len(self.outcomes))
            self._end(last, (0,), Random(self.seed))
            if last.failures:
                self.outcomes.append(last)
        self.target.close()
        return show(self.outcomes, self.seed)

    def _end_of_log(self):
        lines = [line.strip()[:200] for line in self.target.process.output().splitlines() if line.strip()]
        text = " | ".join(lines[-LAST_LINES:]) or "nothing"
        return f"exit code {self.target.process.process.poll()}, end of its log: {text}"


def main(arguments=None):
    parser = argparse.ArgumentParser(prog="campaign node", description=__doc__)
    parser.add_argument("--minutes", type=float, default=10.0, help="time after which no attack begins")
    parser.add_argument("--seed", type=int, default=None, help="seed of the draws (default: random)")
    parser.add_argument("--only", nargs="+", choices=ATTACKS, metavar="NAME", help="names of attacks")
    parser.add_argument("--draw", type=int, help="run only this draw of the seed; requires the same --only")
    parser.add_argument("--list", action="store_true", help="list the attacks")
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
        passed = campaign.close()
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
