"""Files in parameters: blocking, endless, missing or private ones."""

import os

from campaigns.attacks.table import attack
from campaigns.target import Mute, Start

SECRET = "p4ssw0rd-of-this-campaign"


def _paths(target):
    """{description: path}."""
    fifo, folder = target.folder / "fifo", target.folder / "a_folder"
    if not fifo.exists():
        os.mkfifo(fifo)
    folder.mkdir(exist_ok=True)
    secret = target.folder / "app.conf"
    secret.write_text(f"[app]\nuser: admin: {SECRET}\n")
    paths = {"a fifo": fifo, "a folder": folder, "a private file": secret}
    paths |= {name: f"/dev/{name}" for name in ("zero", "urandom", "null", "stdin", "tty")}
    paths |= {"nothing": "/nowhere", "memory": "/proc/self/mem", "too long": "x" * 5000}
    return {name: str(path) for name, path in paths.items()}


def a_strange_robot_description_file(target, random):
    return Start({"robot_description_file": random.choice(sorted(_paths(target).values()))}, robot="")


@attack(start=a_strange_robot_description_file, started=True)
def a_strange_file_at_the_start(target, random):
    """A FIFO, device or folder as robot_description_file: the node logs an error, continues, and ends on a
    signal."""
    target.until(lambda: "ERROR" in target.process.output(), 30, "an error for the file")
    target.spin(1)
    _require_no_secret(target)


def a_strange_loops_file(target, random):
    return Start({"loops_file": random.choice(sorted(_paths(target).values()))}, robot="panda")


@attack(start=a_strange_loops_file, started=True)
def a_strange_loops_file_at_the_start(target, random):
    """The same for loops_file: the log quotes no line of it."""
    target.until(lambda: "ERROR" in target.process.output(), 40, "an error for the file")
    target.spin(1)
    _require_no_secret(target)


@attack()
def strange_files_while_it_serves(target, random):
    """The same files, set as parameters by another participant."""
    paths = sorted(_paths(target).values())
    for name in ("robot_description_file", "loops_file"):
        for path in random.sample(paths, 3):
            target.set(**{name: path})
            target.spin(0.5)
            target.serves()
        target.set(**{name: ""})
    _require_no_secret(target)
    target.serves()


ALIASES = "a0: &a0 [lol, lol, lol, lol, lol, lol, lol, lol, lol]\n" + "".join(
    f"a{k}: &a{k} [{', '.join([f'*a{k - 1}'] * 9)}]\n" for k in range(1, 9)
)


def a_bomb(target, random):
    path = target.folder / "bomb.yaml"
    path.write_text(f"{ALIASES}closed_loop: [[a, b]]\ntype: [*a8]\n")
    return Start({"loops_file": str(path)}, robot="panda")


@attack(start=a_bomb, started=True)
def a_loops_file_with_nested_aliases(target, random):
    """465 bytes of YAML aliases that expand to gigabytes."""
    target.until(lambda: "ERROR" in target.process.output(), 150, "an error for the file")
    target.spin(1)


NAMES = (b"/tmp/\xff\xfe", b"", b"/tmp/\x1b[31m", b"-", b"x" * 100_000)


def invalid_file_name(target, random):
    name = random.choice(NAMES)
    return Start(arguments=("-p", b"robot_description_file:=" + name), robot="panda")


@attack(start=invalid_file_name, started=True, codes=(0, 1))
def a_file_name_that_is_not_text(target, random):
    """Bytes that are not UTF-8, escapes: the node continues, or ends with code 1 and one log line."""
    target.client.spin(5)
    if not target.alive and "Traceback" in target.process.output():
        raise Mute("a traceback instead of one line")


def _require_no_secret(target):
    """Raise Mute if the log has content of a private file."""
    if SECRET in target.process.output():
        raise Mute("a line of a local file is in the log")
