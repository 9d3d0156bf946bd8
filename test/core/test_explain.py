"""The page that explains a robot: its counts agree with other sources, and a browser displays it."""

import importlib.util
import json
import shutil
import struct
import subprocess
import zlib
from pathlib import Path
from xml.etree import ElementTree

import numpy as np
import pytest
from robots import PANDA, PANDA_JOINTS, ROBOTS, data_folder

import dynamics_node as dn
from dynamics_demo import robots as linkages
from dynamics_node.cli import main
from dynamics_node.graph import complete_sketch, generic_graph, graph_matrix, to_svg
from dynamics_node.graph.sketch import banded
from dynamics_node.io import make_report, page, write_page
from dynamics_node.io.explain_page import figure
from dynamics_node.io.pages import POLICY

SVG = "{http://www.w3.org/2000/svg}"


@pytest.fixture(scope="module")
def page_folder(tmp_path_factory):
    """The folder of the Panda's page, written by the command."""
    folder = tmp_path_factory.mktemp("explained")
    arguments = ["--joints", ",".join(PANDA_JOINTS), *["--problem", "forward", "--ordering", "aba"]]
    assert main(["explain", str(data_folder() / PANDA), *arguments, "-o", str(folder)]) == 0
    return folder


def test_command_prints_counts(tmp_path, capsys):
    arguments = ["--joints", ",".join(PANDA_JOINTS[:2]), "--ordering", "F2,A2,qdd2,F1,A1,qdd1"]
    assert (
        main(["explain", str(data_folder() / PANDA), *arguments, "-o", str(tmp_path / "new" / "folder")]) == 0
    )
    out = capsys.readouterr().out
    assert "aba: 6 edges, " in out and "custom: 6 edges, " in out and "written: " in out
    assert "ordering custom" in (tmp_path / "new" / "folder" / "index.html").read_text()
    assert main(["explain", str(data_folder() / PANDA), "--ordering", "F1", "-o", str(tmp_path)]) == 2
    assert "the ordering leaves out" in capsys.readouterr().err


def test_drawings_contain_the_graph(page_folder):
    model = ROBOTS["panda7"].model()
    report = make_report(model, dn.forward_dynamics(model), "aba")

    def marks(name, tag):
        return ElementTree.parse(page_folder / f"{name}.svg").findall(f"{SVG}{tag}")

    assert len(marks("bayes_net", "path")) == len(report.net.edges) == 26
    assert len(marks("bayes_net", "circle")) == 21
    assert len(marks("factor_graph", "circle")) == 21 + len(report.graph.factors)
    blocks = sum(len(factor.blocks) for factor in report.graph.factors)
    assert len(marks("factor_graph", "line")) == blocks
    assert len(marks("equations", "rect")) == blocks + 2  # page and frame
    assert len(marks("triangular", "rect")) == 21 + 26 + 2
    known = [r for r in marks("complete_graph", "rect") if r.get("width") != "100%"]
    assert len(known) == 7 * len(("tau", "V", "q", "qd")) + len(("A0", "V0", "Ft"))


def test_lines_of_the_table(page_folder):
    model = ROBOTS["panda7"].model()
    report = make_report(model, dn.forward_dynamics(model), "aba")
    lines = {line.name: line for line in report.costs}
    assert lines["recursion: aba"].operations == 1211 and lines["aba"].edges == 26
    assert lines["colamd"].operations > 2000 and "checked at run time" in lines["colamd"].note
    assert report.code_of == "aba" and lines["aba"].operations < lines["crba"].operations
    page = (page_folder / "index.html").read_text()
    assert all(f"<td>{line.name}</td>" in page for line in report.costs if line.name != "aba")
    assert "<td><strong>aba</strong></td>" in page
    assert (page_folder / "program.c").read_text() == report.code
    unsafe = make_report(model, dn.forward_dynamics(model), "colamd")
    assert unsafe.code_of == "colamd" and not unsafe.plan.safe


@pytest.mark.parametrize("name", ["solo12", "baxter"])
def test_trees_floating_bases_and_mimic_joints(name, tmp_path):
    model = ROBOTS[name].model()
    for problem in (dn.inverse_dynamics(model), dn.hybrid_dynamics(model, model.joint_names[:1])):
        page = write_page(make_report(model, problem, "aba"), tmp_path)
        for drawing in tmp_path.glob("*.svg"):
            ElementTree.parse(drawing)
        assert "</html>" in page.read_text()


# --- in a browser -------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def browser(tmp_path_factory):
    """run(page, *options) returns the output of a headless browser for a page on disk."""
    candidates = [shutil.which(name) for name in ("chromium", "chromium-browser", "google-chrome")]
    program = next((path for path in candidates if path), None)
    if program is None:
        pytest.skip("a browser: sudo apt install chromium")
    profile = tmp_path_factory.mktemp("profile")

    def run(page, *options):
        command = [
            program, "--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}", *options, page.as_uri()
        ]  # fmt: skip
        return subprocess.run(command, capture_output=True, text=True, timeout=60, check=True).stdout

    return run


def with_script(page, script):
    """The text of a page with a script that its policy allows and that runs after loading."""
    assert POLICY in page
    page = page.replace(POLICY, f"{POLICY}; script-src 'unsafe-inline'")
    return page.replace("</body>", f'<script>addEventListener("load", () => {{{script}}})</script></body>')


def pixels(path):
    """(height, width, 3 or 4) of a PNG with 8 bits a channel."""
    data, at, body, header = path.read_bytes(), 8, b"", ()
    while at < len(data):
        size, kind = struct.unpack(">I4s", data[at : at + 8])
        chunk = data[at + 8 : at + 8 + size]
        header = struct.unpack(">IIBB", chunk[:10]) if kind == b"IHDR" else header
        body += chunk if kind == b"IDAT" else b""
        at += 12 + size
    width, height, depth, color_type = header
    assert depth == 8
    channels = {2: 3, 6: 4}[color_type]
    rows = np.frombuffer(zlib.decompress(body), np.uint8).reshape(height, 1 + width * channels)
    return height, width, rows


def test_screenshot(page_folder, browser, tmp_path):
    """The page fills a laptop's screen, in color."""
    picture = tmp_path / "page.png"
    browser(page_folder / "index.html", f"--screenshot={picture}", "--window-size=1280,800")
    height, width, rows = pixels(picture)
    assert (width, height) == (1280, 800)
    assert len(np.unique(rows)) > 50 and (rows != 0).any(axis=1).mean() > 0.2


@pytest.mark.parametrize("width", [1280, 800])
def test_layout(page_folder, browser, tmp_path, width):
    """Only frames of drawings scroll sideways; every drawing has its size; none is missing."""
    measure = """
      const figures = [...document.querySelectorAll("p svg")].map(x => x.getBoundingClientRect().width);
      document.body.textContent = "MEASURED" + JSON.stringify({wide: document.documentElement.scrollWidth,
        seen: innerWidth, figures}) + "END";
    """
    page = tmp_path / "measured.html"
    page.write_text(with_script((page_folder / "index.html").read_text(), measure))
    text = browser(page, "--dump-dom", f"--window-size={width},800")
    sizes = json.loads(text.partition("MEASURED")[2].partition("END")[0])
    assert sizes["wide"] <= sizes["seen"]
    assert len(sizes["figures"]) == 5 and min(sizes["figures"]) > 300


def test_matrices_of_a_large_robot_fit_the_page(browser, tmp_path):
    model = ROBOTS["talos"].model()
    matrix = graph_matrix(generic_graph(model, dn.forward_dynamics(model)))
    assert float(ElementTree.fromstring(matrix).get("width")) > 2000
    measure = """
      const edges = [...document.querySelectorAll("p, p svg")].map(x => x.getBoundingClientRect().right);
      document.body.textContent = "MEASURED" + JSON.stringify([innerWidth, ...edges]) + "END";
    """
    path = tmp_path / "page.html"
    path.write_text(with_script(page("matrix", [figure("m")], {"m": matrix}), measure))
    text = browser(path, "--dump-dom", "--window-size=1280,800")
    seen, frame, drawing = json.loads(text.partition("MEASURED")[2].partition("END")[0])
    assert drawing <= frame <= seen


# --- the figures of docs/explanation/papers.md ---------------------------------------------------------------------------


@pytest.fixture(scope="module")
def figures():
    source = Path(__file__).parents[2] / "docs" / "paper_figures.py"
    spec = importlib.util.spec_from_file_location("paper_figures", source)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_figures_of_the_papers_are_up_to_date(figures):
    drawings = figures.drawings()
    assert len(drawings) == 20
    for name, svg in drawings.items():
        assert (figures.HERE / "figures" / f"{name}.svg").read_text(encoding="utf-8") == svg, name


def test_edges_of_the_papers_nets(figures):
    """Factors joined as in paper 1 and as in block LU: the numbers of docs/explanation/papers.md."""
    expected = {"5d": (14, 10), "7a": (22, 14), "7b": (18, 10), "10a": (14, 12), "10b": (14, 11)}
    text = (figures.HERE / "explanation" / "papers.md").read_text()
    for name, (graph, ordering, net) in figures.nets().items():
        edges = (figures.joined_edges(graph, ordering.variables), len(net.edges))
        assert edges == expected[name]
        assert f"| {edges[0]} | {edges[1]} |" in text


def test_operations_of_chains(figures):
    for n in (2, 5, 10):
        inverse, forward = figures.operations(n)
        assert inverse <= 174 * n - 134 and forward <= 429 * n - 507
    assert [figures.operations(n) for n in (3, 7, 20)] == [[288, 429], [892, 2124], [2855, 7194]]


# --- large and branched robots ------------------------------------------------------------------------------


def places_of(svg):
    """Positions of the variables of a drawing."""
    drawing = ElementTree.fromstring(svg)
    circles = [c for c in drawing.findall(f"{SVG}circle") if c.get("r") == "21"]
    circles = [(float(c.get("cx")), float(c.get("cy"))) for c in circles]
    squares = [r for r in drawing.findall(f"{SVG}rect") if r.get("width") == "42"]
    return circles + [(float(r.get("x")) + 21, float(r.get("y")) + 21) for r in squares]


def assert_apart(robot, tree):
    """Drawings twelve columns and a tool wide, in which no variable lies on another."""
    problem = dn.forward_dynamics(robot)
    graph, sketch = generic_graph(robot, problem), complete_sketch(robot, problem)
    for svg, count in (
        (to_svg(graph, parents=tree.parents), len(graph.variables)),
        (sketch.svg(), len(sketch.nodes)),
    ):
        places = places_of(svg)
        assert len(places) == count and len(set(places)) == count
        assert max(x for x, _ in places) <= 46 + 13 * 110


def test_variables_do_not_overlap_and_drawings_are_narrow(model):
    assert_apart(model, model)


def test_long_chains_are_wrapped():
    """More bodies in a row than Python's recursion limit."""
    parents = tuple(range(-1, 2999))
    places = banded(parents, range(3001))
    assert len(set(places.values())) == 3001 and max(column for _, column in places.values()) == 11
    assert places[3000] == (250, 0) and places[13] == (1, 1)


def test_branches_have_their_own_bands():
    """A trunk of two bodies with a long arm and a short one, and a constraint of no body."""
    places = banded((-1, 0, 1, 1, 3), [0, 1, 2, 3, 4, 5, 6])
    assert places == {0: (0, 0), 1: (0, 1), 2: (0, 2), 4: (0, 3), 5: (0, 4), 3: (1, 3), 6: (2, 0)}


def test_short_branches_share_a_band():
    """A chain of six with a rotor at every joint: two bands hold the rotors."""
    parents = [-1, 0, 1, 2, 3, 4, -1, 0, 1, 2, 3, 4]
    places = banded(parents, range(13))
    assert len(set(places.values())) == 13 and {band for band, _ in places.values()} == {0, 1, 2}
    assert [places[k] for k in range(7)] == [(0, k) for k in range(7)]


@pytest.mark.parametrize("name", ["quadruped", "humanoid"])
def test_variables_of_a_robot_with_loops_do_not_overlap(name):
    mechanism = dn.parse_robot(getattr(linkages, name)())
    assert_apart(mechanism, mechanism.tree)


def test_contacts_are_on_the_page(tmp_path, capsys):
    """Their forces, their factors in the drawings, and both recursions among the costs."""
    urdf, contacts = ROBOTS["solo12"].file, tmp_path / "feet.yaml"
    contacts.write_text("contacts: [{link: [FL_FOOT, HR_FOOT]}]")
    command = ["explain", str(urdf), "--floating-base", "--contacts", str(contacts)]
    out = tmp_path / "explained"
    assert main([*command, "--ordering", "constrained_aba", "-o", str(out)]) == 0
    printed = capsys.readouterr().out
    assert "contact forces last" in printed and "contact forces at limbs" in printed
    page = (out / "index.html").read_text()
    assert "FL_FOOT, HR_FOOT" in page and "lambda2" in page
    assert "contact1(" in (out / "factor_graph.svg").read_text()
    assert "λ" in (out / "bayes_net.svg").read_text()
    assert main([*command, "--problem", "inverse", "-o", str(out)]) != 0
    assert "shortest forces" in capsys.readouterr().err
    arm = ROBOTS["panda7"].model()
    sketch = complete_sketch(arm, dn.forward_dynamics(arm, dn.Contact("panda_hand")))
    assert sketch.nodes["lambda", 1].known is False
    assert ("contact 1", [("A", 7), ("V", 7), ("lambda", 1)]) in sketch.factors
