"""Run by a process of its own, in which Oclgrind looks for races and for what nobody has written: kernels of a pickled
list [(Kernel, count, inputs, shapes of outputs)] from stdin, to stdout the pickled list [(outputs, what Oclgrind said)]."""

import os
import pickle
import sys
from pathlib import Path

LOOKING = {"OCLGRIND_DATA_RACES": "1", "OCLGRIND_UNINITIALIZED": "1", "OCLGRIND_MAX_ERRORS": "100000"}


def main():
    from text_in_opencl import ran

    from dynamics_node.backends.opencl.devices import opened

    log = Path(os.environ["OCLGRIND_LOG"])
    found, read = [], 0
    on = opened("oclgrind")
    for job in pickle.load(sys.stdin.buffer):
        outputs = ran(on, *job)
        on.queue.finish()
        said = log.read_text()[read:] if log.exists() else ""
        read += len(said)
        found.append((outputs, said))
    pickle.dump(found, sys.stdout.buffer)


if __name__ == "__main__":
    main()
