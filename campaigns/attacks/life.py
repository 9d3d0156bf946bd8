"""Process life cycle: signals at any time, stops, repeated swaps of the solver."""

import os
import signal
import time

from swaps import Swaps
from tolerances import EXACT

from campaigns.attacks.table import attack
from campaigns.cores import CoreWait
from campaigns.target import Mute, Start


def panda_or_ur5_start(target, random):
    return Start(robot=random.choice(["panda", "ur5"]))


@attack(start=panda_or_ur5_start, started=True)
def a_signal_at_any_time(target, random):
    """SIGINT or SIGTERM in the first 3 s: exit code 0 within 10 s of time on a core."""
    delay = random.uniform(0.0, 3.0)
    time.sleep(delay)
    target.process.process.send_signal(random.choice([signal.SIGINT, signal.SIGTERM]))
    began, waiting = time.time_ns(), CoreWait(target.pid)
    while target.alive:
        waiting.look()
        now = time.time_ns()
        if (now - began) * 1e-9 - waiting.between(began, now) > 10:
            raise Mute(f"does not end on a signal {delay:.2f} s after its start")
        target.client.spin(0.02)


@attack()
def frozen_for_a_while(target, random):
    """SIGSTOP and SIGCONT: messages that waited are stale."""
    target.watch.set_pressing(False)
    for _ in range(3):
        os.kill(target.pid, signal.SIGSTOP)
        time.sleep(random.uniform(0.3, 1.5))
        os.kill(target.pid, signal.SIGCONT)
        target.spin(0.5)
    target.watch.set_pressing(True)


@attack()
def a_thousand_swaps(target, random):
    """Swaps of solvers and payloads of a Core, without ROS: torques are exact."""
    if (largest_error := Swaps(random.randrange(10**9)).run(1000)) > EXACT:
        raise Mute(f"the core's torque is off by {largest_error:.3g}")
