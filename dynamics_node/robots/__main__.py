"""python -m dynamics_node.robots five_bar > five_bar.urdf: prints one of the robots as URDF+."""

import argparse

from dynamics_node.robots import ROBOTS


def main():
    """Print the robot that is named."""
    parser = argparse.ArgumentParser(prog="python -m dynamics_node.robots", description=__doc__)
    parser.add_argument("name", choices=ROBOTS)
    print(ROBOTS[parser.parse_args().name]())


if __name__ == "__main__":
    main()
