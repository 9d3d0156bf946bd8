"""dynamics graph: orderings, and the Bayes net of one."""

from pathlib import Path

from dynamics_node.cli.options import add_problem, read_problem, robot_command
from dynamics_node.graph import ORDERINGS, eliminate, generic_graph, plan_ordering, to_dot, to_svg
from dynamics_node.io.write import write_text

DRAWINGS = {
    ".svg": lambda net, parents: to_svg(net, parents=parents),
    ".dot": lambda net, parents: to_dot(net),
}


def add_parser(commands):
    parser = robot_command(commands, "graph", show_graph, "orderings, edges and a drawing of a Bayes net")
    add_problem(parser)
    parser.add_argument("--ordering", choices=(*ORDERINGS, "best"), help="default: a table of all")
    parser.add_argument("--out", type=Path, help="write the Bayes net: FILE.svg or FILE.dot")


def show_graph(model, options):
    """Print a table of orderings, or one Bayes net, and draw it."""
    draw = _drawing(options) if options.out else None
    problem = read_problem(model, options)
    graph = generic_graph(model, problem)
    names = [options.ordering] if options.ordering else list(ORDERINGS)
    print(f"{'ordering':16} {'edges':>6} {'entries':>8}  pivots")
    for name in names:
        ordering, plan = plan_ordering(model, problem, name)
        net = eliminate(graph, plan)
        pivots = "safe" if plan.safe else "checked at run time"
        print(f"{ordering.name:16} {len(net.edges):6} {plan.size:8}  {pivots}")
    if options.ordering:
        print(net)
    if draw:
        write_text(options.out, draw(net, model.tree.parents))
        print(f"written: {options.out}")


def _drawing(options):
    """What draws the net as the file's name says. Raises ValueError before anything is computed."""
    if not options.ordering:
        raise ValueError("--out draws one net: choose it with --ordering")
    if options.out.suffix not in DRAWINGS:
        raise ValueError(
            f"--out draws FILE.svg or FILE.dot, not {options.out}: "
            "`dot -Tpng FILE.dot -o FILE.png` makes a PNG of points"
        )
    return DRAWINGS[options.out.suffix]
