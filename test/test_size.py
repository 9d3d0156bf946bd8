"""Size is a feature: the lines of every package, docstrings and blank lines included, stay within a budget.

A budget is the present size, rounded up. Whoever adds a subject raises it in the same commit, with the reason in
the message; whoever removes one lowers it.
"""

from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
LIBRARY = ROOT / "dynamics_node"
KINDS = {".py", ".c", ".h", ".js"}
BUDGETS = {
    "algorithms": 8100,
    "chains": 700,
    "cli": 2950,
    "codegen": 8500,
    "estimation": 3000,
    "functions": 6300,
    "graph": 5200,
    "identification": 6550,
    "io": 2650,
    "node": 9200,
    "robot": 8700,
    "symbolic": 3000,
    "trajectory": 9350,
    ".": 1050,  # the modules next to the packages
}
TESTS = 58_500
LONGEST = 600  # lines of one module


def lines(paths):
    return sum(len(path.read_text().splitlines()) for path in paths)


def sources(folder, deep=True):
    found = folder.rglob("*") if deep else folder.glob("*")
    return [path for path in found if path.suffix in KINDS]


def test_every_package_has_a_budget():
    packages = {path.name for path in LIBRARY.iterdir() if (path / "__init__.py").exists()}
    assert packages == set(BUDGETS) - {"."}


@pytest.mark.parametrize("package", BUDGETS)
def test_packages_keep_to_their_budgets(package):
    size = lines(sources(LIBRARY / package, deep=package != "."))
    assert BUDGETS[package] - 200 < size <= BUDGETS[package], f"{package} has {size} lines"


def test_tests_keep_to_their_budget():
    assert lines(sources(ROOT / "test")) <= TESTS


def test_no_module_is_longer_than_a_subject():
    assert not {str(path): n for path in sources(LIBRARY) if (n := lines([path])) > LONGEST}
