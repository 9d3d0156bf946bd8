"""Commands of `dynamics`, run in the process of the test."""

from dynamics_node.cli import main


def exit_code(arguments):
    """The exit code, also of what argparse rejects."""
    try:
        return main(list(map(str, arguments)))
    except SystemExit as ended:
        return ended.code
