"""Its life: signals at any time, freezes, swaps of the solver without end."""

import os
import signal
import time

from swaps import Swaps
from tolerances import EXACT

from campaigns.attacks.table import attack
from campaigns.cores import Waiting
from campaigns.target import Mute, Start


def any_robot(target, random):
    return Start(robot=random.choice(["panda", "ur5"]))


@attack(start=any_robot, started=True)
def a_signal_at_any_time(target, random):
    """SIGINT or SIGTERM in the first three seconds: exit code 0, within ten in which it had a core."""
    delay = random.uniform(0.0, 3.0)
    time.sleep(delay)
    target.process.process.send_signal(random.choice([signal.SIGINT, signal.SIGTERM]))
    began, waiting = time.time_ns(), Waiting(target.pid)
    while target.alive:
        waiting.look()
        now = time.time_ns()
        if (now - began) * 1e-9 - waiting.between(began, now) > 10:
            raise Mute(f"does not end on a signal {delay:.2f} s after its start")
        target.client.spin(0.02)


@attack()
def frozen_for_a_while(target, random):
    """SIGSTOP and SIGCONT: what waited meanwhile is too old."""
    target.watch.press(False)
    for _ in range(3):
        os.kill(target.pid, signal.SIGSTOP)
        time.sleep(random.uniform(0.3, 1.5))
        os.kill(target.pid, signal.SIGCONT)
        target.spin(0.5)
    target.watch.press(True)


@attack()
def a_thousand_swaps(target, random):
    """Solvers swapped and payloads changed under the node's core, without ROS: no torque is off."""
    if (found := Swaps(random.randrange(10**9)).run(1000)) > EXACT:
        raise Mute(f"the core's torque is off by {found:.3g}")
