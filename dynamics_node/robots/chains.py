"""Serial chains of any length whose joints are driven through gears or belts (paper 3, figures 11 and 13).

Their links are generic, with oblique axes of inertia, so that nothing vanishes by accident.
"""

from math import sin

from dynamics_node.robots.text import X, Y, Z, coupling, joint, link, massless, robot


def geared_chain(links, ratio=6.0) -> str:
    """GT: every joint is driven by a rotor that hangs on the same link as itself."""
    parts = [massless("l0")]
    for k in range(1, links + 1):
        axis = (Z, Y, X)[k % 3]
        parts += [
            _generic(f"l{k}", k, 1.0),
            _generic(f"r{k}", 100 + k, 0.2),
            joint(f"j{k}", f"l{k - 1}", f"l{k}", (0.3, 0.05, 0.1), axis),
            joint(f"m{k}", f"l{k - 1}", f"r{k}", (0.1, 0, 0), axis, independent=False),
            coupling(f"gear{k}", f"l{k}", f"r{k}", ratio),
        ]
    return robot("geared_chain", *parts)


def belt_chain(pairs, ratio=4.0) -> str:
    """PBT: pairs of parallel joints whose rotors both hang on the link before. The second one's belt runs
    over the first joint, so its rotor turns with the sum of both."""
    parts, base = [massless("l0")], "l0"
    for k in range(1, pairs + 1):
        axis, a, b = (Z, Y)[k % 2], f"a{k}", f"b{k}"
        parts += [
            _generic(a, k, 1.0),
            _generic(b, 50 + k, 0.8),
            _generic(f"ra{k}", 100 + k, 0.2),
            _generic(f"rb{k}", 150 + k, 0.2),
            joint(f"j{a}", base, a, (0.3, 0, 0.1), axis),
            joint(f"j{b}", a, b, (0.25, 0, 0), axis),
            joint(f"ma{k}", base, f"ra{k}", (0.1, 0, 0), axis, independent=False),
            joint(f"mb{k}", base, f"rb{k}", (0.15, 0, 0), axis, independent=False),
            coupling(f"ca{k}", a, f"ra{k}", ratio),
            coupling(f"cb{k}", b, f"rb{k}", ratio),
        ]
        base = b
    return robot("belt_chain", *parts)


def _generic(name, seed, mass):
    """A link whose numbers look random, always the same for a seed."""
    a, b, c, d, e, f = (sin(12.9898 * seed + 78.233 * k) for k in range(6))
    moments = [0.02 + 0.005 * x for x in (a, b, c)]
    return link(name, mass, (0.1 * d, 0.1 * e, 0.1 * f), [mass * m for m in moments], (a, b, 3 * c))
