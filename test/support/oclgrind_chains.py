"""Run by a process of its own, in which Oclgrind looks for races and for what nobody has written: the kernel of chains, of
a pickled (Robot, states, texts) from stdin, to stdout the pickled list [(qdd, what Oclgrind said)]."""

import os
import pickle
import sys
from pathlib import Path

from dynamics_node.parallel.on_opencl import OpenClChains


def main():
    log, read, found = Path(os.environ["OCLGRIND_LOG"]), 0, []
    robot, states, texts = pickle.load(sys.stdin.buffer)
    chains = OpenClChains(robot, device="oclgrind")
    for text in texts:
        chains.kernel = chains.kernel._replace(text=text)
        qdd = chains(*states)
        said = log.read_text()[read:] if log.exists() else ""
        read += len(said)
        found.append((qdd, said))
    pickle.dump(found, sys.stdout.buffer)


if __name__ == "__main__":
    main()
