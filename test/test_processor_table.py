"""`./dev bench --save`: the file of a processor, and the table of all of them; nothing is measured."""

import json
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.append(str(ROOT / "benchmarks"))
import harness
import processor_table as tables

PAGE = f"# Measurements\n\nBefore.\n\n{tables.BEGIN}\n\nold\n\n{tables.END}\n\nAfter.\n"


def result(processor="AMD EPYC", model="25, 1", value=0.1234, **figures):
    """The content of a file: a row with a peer, and `figures` without."""
    rows = [harness.Row("panda inverse, call", value, "us", "lower", "pin.rnea", 1.0)]
    rows += [harness.Row(name, number, "s", "lower") for name, number in figures.items()]
    described = {"processor": processor, "family, model": model, "compiler": "cc 1"}
    return harness.content(rows, {}) | {"description": described}


@pytest.fixture
def places(tmp_path):
    """A folder of results and a page."""
    page = tmp_path / "page.md"
    page.write_text(PAGE)
    return tmp_path / "results", page


def rows(page):
    """Cells of the table's rows."""
    lines = [line for line in page.read_text().splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in lines]


def test_a_processor_writes_its_own_column(places):
    _, page = places
    tables.save(result(build=0.5), *places)
    tables.save(result("Intel(R) Xeon", value=2.0, memory=None), *places)
    assert rows(page) == [
        ["", "AMD EPYC", "Intel(R) Xeon"],
        ["---", "---", "---"],
        ["family, model", "25, 1", "25, 1"],
        ["compiler", "cc 1", "cc 1"],
        ["panda inverse, call", "0.123 us (0.12)", "2 us (2.00)"],
        ["build", "0.5 s", ""],
        ["memory", "", ""],
    ]
    other = page.read_text()
    tables.save(result(value=0.5), *places)
    assert rows(page)[4] == ["panda inverse, call", "0.5 us (0.50)", "2 us (2.00)"]
    assert [row[0] for row in rows(page)[5:]] == ["memory"]
    assert page.read_text().split(tables.BEGIN)[0] == other.split(tables.BEGIN)[0]
    assert page.read_text().split(tables.END)[1] == "\n\nAfter.\n"


def test_writing_twice_changes_nothing(places):
    folder, page = places
    tables.save(result(), *places)
    text = page.read_text()
    tables.save(result(), *places)
    assert page.read_text() == text and len(list(folder.iterdir())) == 1


def test_models_of_one_name_have_their_own_files(places):
    folder, _ = places
    for model in ("25, 1", "26, 2"):
        tables.save(result(model=model), *places)
    assert sorted(path.name for path in folder.iterdir()) == ["amd-epyc-25-1.json", "amd-epyc-26-2.json"]


def test_name_of_a_processor_is_no_path_and_no_markup(places):
    folder, page = places
    tables.save(result("../../<b>|`x`"), *places)
    assert [path.name for path in folder.iterdir()] == ["b-x-25-1.json"]
    assert not set("<`") & set("".join(map(str, rows(page)))) and len({*map(len, rows(page))}) == 1


@pytest.mark.parametrize("text", ["# Measurements\n", PAGE + PAGE])
def test_page_without_one_place_for_the_table_is_an_error(places, text):
    folder, page = places
    page.write_text(text)
    with pytest.raises(SystemExit, match=tables.BEGIN):
        tables.save(result(), *places)
    assert page.read_text() == text and not folder.exists()


def test_this_machine_has_a_description():
    described = tables.description()
    assert described["processor"] and described["compiler"]
    assert "/" not in tables.file_name(described)


def test_table_of_the_page_is_that_of_the_files():
    text = tables.PAGE.read_text()
    results = [json.loads(path.read_text()) for path in tables.RESULTS.glob("*.json")]
    assert results and tables.written(text, tables.table(results)) == text
    assert all(path.name == tables.file_name(json.loads(path.read_text())["description"])
               for path in tables.RESULTS.glob("*.json"))  # fmt: skip
