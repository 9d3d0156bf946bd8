"""How reading, naming and building grow with the size of a description, for each kind of its parts.

Processor time at four sizes, each twice the last, and the exponent of the last two. Parsing is `parse_robot`,
naming a proposal of joint names, building the node's first stage by NumPy, in this process. A row ends with
the first time above LONGEST.
"""

import argparse
import contextlib
import math
import time
import warnings

from dynamics_node.errors import ModelError
from dynamics_node.node.building.build_job import do
from dynamics_node.node.core.parameters import read_fields
from dynamics_node.node.core.settings import PARAMETERS, Settings
from dynamics_node.robot import parse_robot
from dynamics_node.robot.joint_names import proposed_pair

LONGEST = 20.0  # s
BODY = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def link(name):
    return f'<link name="{name}">{BODY}</link>'


def joint(name, parent, child, more="", kind="continuous", xyz="0 0 0"):
    ends = f'<parent link="{parent}"/><child link="{child}"/><origin xyz="{xyz}"/><axis xyz="0 0 1"/>'
    return f'<joint name="{name}" type="{kind}">{ends}{more}</joint>'


def below(parents, **options):
    """Links k0, k1, ... below these parents, with joints j0, j1, ..."""
    rows = enumerate(parents)
    return "".join(link(f"k{k}") + joint(f"j{k}", parent, f"k{k}", **options) for k, parent in rows)


def robot(*parts):
    return f'<robot name="r"><link name="base"/>{"".join(parts)}</robot>'


def on_the_last(count):
    return ["base", *(f"k{k}" for k in range(count - 1))]


def mimics(master):
    def text(count):
        first, *others = (link(f"k{k}") for k in range(count))
        rows = (
            own + joint(f"j{k}", "base", f"k{k}", f'<mimic joint="j{master(k)}"/>')
            for k, own in enumerate(others, 1)
        )
        return robot(first, joint("j0", "base", "k0"), *rows)

    return text


def gears(links):
    """Gears between the first and the last link, the second and the last but one, ..."""

    def text(count):
        rows = (
            f'<coupling name="c{k}"><predecessor link="k{k}"/><successor link="k{count - 1 - k}"/>'
            '<ratio value="1.5"/></coupling>'
            for k in range(count // 2 - 1)
        )
        return robot(below(links(count)), *rows)

    return text


def loop(name, ends):
    (a, at), (b, there) = ends
    return (
        f'<loop name="{name}" type="revolute"><predecessor link="{a}"><origin xyz="{at}"/></predecessor>'
        f'<successor link="{b}"><origin xyz="{there}"/></successor></loop>'
    )


def loops_apart(count):
    """Four-bars on one base."""
    parts = [
        link(f"a{k}") + link(f"b{k}") + link(f"c{k}") + joint(f"ja{k}", "base", f"a{k}")
        + joint(f"jb{k}", f"a{k}", f"b{k}", xyz="1 0 0") + joint(f"jc{k}", f"b{k}", f"c{k}", xyz="0 1 0")
        + loop(f"l{k}", (("base", "0 1.2 0"), (f"c{k}", "-1 0.2 0")))
        for k in range(count)
    ]  # fmt: skip
    return robot(*parts)


def loops_in_a_ladder(count):
    """Loops that depend on each other."""
    arms = "".join(link(f"b{k}") + joint(f"m{k}", f"k{k}", f"b{k}", xyz="0 0.1 0") for k in range(count + 1))
    rungs = "".join(loop(f"l{k}", ((f"b{k - 1}", "1 0 0"), (f"b{k}", "1 -1 0"))) for k in range(1, count + 1))
    return robot(below(on_the_last(count + 1), xyz="0 1 0"), arms, rungs)


KINDS = {  # {name: (text of a size, first size)}
    "chain": (lambda n: robot(below(on_the_last(n))), 100),
    "breadth": (lambda n: robot(below(["base"] * n)), 100),
    "fixed links": (lambda n: robot(below(on_the_last(n), kind="fixed")), 250),
    "mimics of one": (mimics(lambda k: 0), 100),
    "mimics of the last": (mimics(lambda k: k - 1), 100),
    "gears side by side": (gears(lambda n: ["base"] * n), 100),
    "gears in a chain": (gears(on_the_last), 50),
    "loops apart": (loops_apart, 8),
    "loops in a ladder": (loops_in_a_ladder, 4),
}


def parse(text):
    with contextlib.suppress(ModelError):  # a robot that cannot be built takes time, too
        parse_robot(text)


def build(text):
    settings = read_fields(Settings, PARAMETERS, {p.name: p.default for p in PARAMETERS})
    do(settings.job(text).first())


def name(count):
    ours = ["panda_" + "a" * 100 + f"{k}" for k in range(count)]
    proposed_pair([f"fer_{k}" for k in range(count - 1)], ours)


def name_at_length(count):
    """Names of `count` characters, which only a parameter or a file can have."""
    proposed_pair(["a" * (count - 1) + "b", "b"], ["a" * count])


def growth(what, function, inputs, first):
    times = []
    for k in range(4):
        begun = time.process_time()
        function(inputs(first * 2**k))
        times.append(time.process_time() - begun)
        if times[-1] > LONGEST:
            break
    exponent = math.log2(times[-1] / times[-2]) if len(times) > 1 else math.nan
    row = "  ".join(f"{own:7.3f}" for own in times)
    print(f"{what:28s} from {first:6d}: {row} s, exponent {exponent:.2f}", flush=True)


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("kinds", nargs="*", default=[*KINDS, "names"])
    warnings.simplefilter("ignore")
    for kind in parser.parse_args().kinds:
        if kind == "names":
            growth("number of names: propose", name, lambda n: n, 500)
            growth("length of a name: propose", name_at_length, lambda n: n, 25_000)
            growth("length of a name: parse", parse, lambda n: robot(link("x" * n)), 25_000)
            continue
        text, first = KINDS[kind]
        growth(f"{kind}: parse", parse, text, first)
        growth(f"{kind}: build", build, text, max(first // 5, 2))


if __name__ == "__main__":
    main()
