"""Documentation pages: links, the tree of pages, names of the library, generated tables."""

import itertools
import re
import subprocess
import sys
from pathlib import Path, PurePosixPath

import numpy as np
import pytest
import yaml

import dynamics_node as dn

ROOT = Path(__file__).parents[1]
DOCS = ROOT / "docs"
sys.path.append(str(DOCS / "_extensions"))
PAGES = sorted(DOCS.rglob("*.md"))
TEXTS = [*PAGES, ROOT / "README.md", ROOT / "CONTRIBUTING.md"]
GENERATED = {
    DOCS / "tutorials" / "library": DOCS / "tutorials" / "scripts",
    DOCS / "examples": ROOT / "examples",
}
WRITTEN = {"data", "first", "found", "again", "excited", "out"}  # folders that commands on the pages write


def named(path):
    return str(path.relative_to(ROOT))


def without_code(text):
    return re.sub(r"^( *)(```|~~~|:::).*?^\1\2 *$", "", text, flags=re.DOTALL | re.MULTILINE)


def anchors(path):
    """Valid anchors of `page.md#anchor`: GitHub's and MyST's slugs of the headings."""
    text = path.read_text()
    if path.name == "contributing.md":
        text = (ROOT / "CONTRIBUTING.md").read_text()
    headings = re.findall(r"^#+ (.*)$", without_code(text), re.MULTILINE)
    plain = [re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in headings]
    return {re.sub(r"[^\w\- ]", "", heading.lower()).replace(" ", "-") for heading in plain}


def source(target):
    """The source file of a link: for a generated page its script."""
    for folder, scripts in GENERATED.items():
        if target.parent == folder:
            return scripts / ("GALLERY_HEADER.rst" if target.stem == "index" else f"{target.stem}.py")
    if target.parent == DOCS / "reference" / "api":
        return ROOT / "dynamics_node" / "library.py"
    return target if target.exists() or target.suffix else target.with_suffix(".md")


def test_readme_code_prints_the_listed_output():
    """README has at most 120 lines. Its code prints the listed words, and numbers within 1e-3."""
    pytest.importorskip(
        "pinocchio", reason="the Panda comes with it: pip install pin, or ros-$ROS_DISTRO-pinocchio"
    )
    text = (ROOT / "README.md").read_text()
    assert text.count("\n") <= 120
    ((code, printed),) = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    output = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    number = r"-?\d+\.?\d*"
    assert [line.split()[0] for line in output.splitlines()] == [
        line.split()[0] for line in printed.splitlines()
    ]
    printed_numbers, listed_numbers = (
        np.array(re.findall(number, part), dtype=float) for part in (output, printed)
    )
    assert np.allclose(printed_numbers, listed_numbers, rtol=0, atol=1e-3)


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_code_has_a_language(path):
    """A block without one has no highlighting, and an indented one cannot name it."""
    fences = re.findall(r"^ *(```+|~~~+)(.*)$", path.read_text(), re.MULTILINE)
    assert all(language.strip() for _, language in fences[::2]), fences[::2]
    lines = without_code(path.read_text()).split("\n")
    indented = [b for a, b in itertools.pairwise(lines) if not a and re.match(r" {4}(?! *([*-]|\d+\.) )", b)]
    in_lists = [
        line for line in indented if not re.search(r"^ *([*-]|\d+\.) ", path.read_text(), re.MULTILINE)
    ]
    assert not in_lists


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_tables_have_a_head_and_no_gap(path):
    """Rows after a blank line are text with bars."""
    blocks = re.split(r"\n\s*\n", without_code(path.read_text()))
    for block in blocks:
        rows = [line.strip() for line in block.split("\n") if line.strip().startswith("|")]
        assert not rows or re.fullmatch(r"\|[-:| ]+\|", rows[1]), rows[:2]


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_links_resolve(path):
    for target in re.findall(r"\]\(([^)\s]+)\)", without_code(path.read_text())):
        if re.match(r"https?:|mailto:", target):
            continue
        name, _, anchor = target.partition("#")
        file = (path.parent / name).resolve() if name else path
        assert file.exists(), f"{target}: no {file}"
        assert not anchor or anchor in anchors(file), f"{target}: the anchors are {sorted(anchors(file))}"


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_links_are_markdown(path):
    """A role of Sphinx is no link on other sites, and in editors."""
    assert not re.findall(r"\{(?:doc|ref|download)\}`[^`]*`", path.read_text())


def test_links_to_scripts_lead_to_their_pages_on_the_site():
    from gallery_links import with_pages

    for page, link, there in (
        ("how-to/export.md", "../../examples/mpc_acados.py", "../examples/mpc_acados.rst"),
        ("tutorials/index.md", "scripts/legged.py", "library/legged.rst"),
        ("coming_from.md", "../examples/loops.py", "examples/loops.rst"),
        ("how-to/export.md", "../../setup.py", "../../setup.py"),
    ):
        assert with_pages(f"see [a]({link}), too", PurePosixPath(page)) == f"see [a]({there}), too"


def test_every_page_is_in_the_tree_once():
    tree = (DOCS / "index.rst").read_text().partition(".. toctree::")[2]
    root = re.findall(r"^   (?:.* <)?([\w/-]+)>?$", tree, re.MULTILINE)
    entries = [source(DOCS / name) for name in root]
    for page in PAGES:
        for tree in re.findall(r"^```{toctree}\n(.*?)^```", page.read_text(), re.DOTALL | re.MULTILINE):
            names = [line for line in tree.splitlines() if line and not line.startswith(":")]
            entries += [source((page.parent / name).resolve()) for name in names]
    assert sorted(set(entries)) == sorted(entries)
    assert set(PAGES) <= set(entries)


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_names_of_the_library_exist(path):
    text = path.read_text()
    for name in set(re.findall(r"\bdn\.(\w+)", text)):
        assert hasattr(dn, name), name
    for name in set(re.findall(r"""(?:\bB\(|dn\.build\(\w+, |dn\.evaluate\(\w+, )"(\w+)\"""", text)) - {
        "name"
    }:
        assert name in dn.QUANTITIES, name


@pytest.mark.parametrize("path", TEXTS, ids=named)
def test_files_of_the_project_exist(path):
    """Paths with a folder exist in the repository or in the library."""
    for name in set(re.findall(r"`((?:[\w-]+/)+[\w-]+\.(?:py|c|h|yaml|md|xml|toml))`", path.read_text())):
        if name.partition("/")[0] not in WRITTEN:
            assert any((folder / name).exists() for folder in (ROOT, ROOT / "dynamics_node")), name


def test_every_public_name_has_a_page():
    from api_pages import subjects

    names = [name for own in subjects().values() for name in own]
    assert names == dn.__all__


@pytest.mark.parametrize("path", PAGES, ids=named)
def test_examples_define_what_they_use(path):
    """In a fresh Python, not only with the names that docs/conf.py defines."""
    blocks = re.findall(r"^```\{doctest\}\n(.*?)^```", path.read_text(), re.DOTALL | re.MULTILINE)
    prompts = [line[4:] for line in "".join(blocks).splitlines() if line.startswith((">>>", "..."))]
    lines = [line.partition("  #")[0] for line in prompts]
    for name, defined in (
        ("np", "import numpy as np"),
        ("dn", "import dynamics_node as dn"),
        ("robot", r".*robot.* = "),
    ):
        first = next((line for line in lines if re.search(rf"\b{name}\b", line)), None)
        assert first is None or re.match(defined, first), f"{name} in {first!r}"


def test_topic_tables_match_the_code():
    pytest.importorskip("rclpy", reason="ROS 2: source an installation, or use ./dev")
    from interface_tables import topic_table

    text = (DOCS / "reference" / "topics.md").read_text()
    blocks = re.findall(r"^```{topics} (\w+) (\w+)\n(.*?)^```", text, re.DOTALL | re.MULTILINE)
    assert len(blocks) == 4
    for node, direction, lines in blocks:
        topic_table(node, direction, lines.splitlines())


def test_security_policy_lists_every_service():
    from interface_tables import INTERFACES, service_name

    policy = (DOCS / "security" / "policy.xml").read_text()
    kinds = [path.stem for path in INTERFACES.glob("srv/*.srv")]
    assert len(kinds) == 13
    for kind in kinds:
        assert f"<service>/dynamics_node/{service_name(kind)}</service>" in policy


def test_troubleshooting_reasons_match_the_node():
    """The constant beginning of every reason occurs in the source of the node."""
    code = "\n".join(path.read_text() for path in (ROOT / "dynamics_node" / "node").rglob("*.py"))
    page = (DOCS / "how-to" / "troubleshooting.md").read_text()
    (section,) = re.findall(r"^## The node publishes no torques\n(.*?)^## ", page, re.DOTALL | re.MULTILINE)
    reasons = re.findall(r"^\| `([^`]+)`", section, re.MULTILINE)
    assert len(reasons) > 5
    for reason in reasons:
        words = re.split(r"JOINT|[\d.]+ s\b", reason)[0].strip(" :")
        assert words in code, words


def test_workflow_and_hooks_use_the_commands_of_developers():
    jobs = yaml.safe_load((ROOT / ".github" / "workflows" / "test.yml").read_text())["jobs"]
    commands = {name: job["steps"][-1].get("run", "") for name, job in jobs.items() if name != "docs"}
    assert len(commands) == 4 and all("./dev test" in command for command in commands.values())
    hooks = yaml.safe_load((ROOT / ".pre-commit-config.yaml").read_text())["repos"]
    (ruff,) = (repo for repo in hooks if "ruff" in repo["repo"])
    assert f"\nruff=={ruff['rev'].removeprefix('v')} " in (ROOT / "dependencies.lock").read_text()
