"""Which description is built and served when many come, good ones and bad ones, at any rate. No process, no ROS."""

from dataclasses import dataclass

import pytest

from dynamics_node.node.building.build_job import Failure, Job
from dynamics_node.node.building.build_process import PATIENCE, Builds

STAGE = 3  # looks that a stage takes


@dataclass(frozen=True)
class Settings:
    """What Builds asks of the node's."""

    backend: str = "auto"

    def job(self, text):
        services = "auto" if self.backend == "auto" else "numpy"
        return Job(text, {}, "inverse", backend=self.backend, services=services)


class FakeBuilding:
    """Takes STAGE looks; a text that begins with 'bad' fails, 'lost' fails by no fault of its own the first time."""

    def __init__(self, node, job):
        self.node, self.job, self.looks, self.cancelled = node, job, 0, False

    def poll(self):
        self.looks += 1
        if self.looks < STAGE or self.job.text.startswith("slow"):
            return None
        if self.job.text.startswith("bad"):
            return Failure(f"{self.job.text} is refused")
        if self.job.text.startswith("lost") and sum(b.job == self.job for b in self.node.made) < 2:
            return Failure("killed", passing=True)
        if self.job.text.startswith("hopeless"):
            return Failure("killed", passing=True)
        return self.job

    def cancel(self):
        self.cancelled = True


class Node:
    """What the node does with Builds."""

    def __init__(self):
        self.now, self.made, self.served, self.failure = 0.0, [], [], ""
        self.settings = Settings()
        self.builds = Builds(self.start, lambda: self.now)

    def start(self, job, aside):
        assert aside == bool(self.served)
        self.made.append(FakeBuilding(self, job))
        return self.made[-1]

    def describe(self, text):
        if self.builds.describe(text, self.settings):
            self.failure = ""

    def set(self, **changes):
        self.settings = Settings(**changes)
        self.builds.repeat(self.settings)

    def look(self, times=1, seconds=0.02):
        for _ in range(times):
            self.now += seconds
            built = self.builds.step()
            if built is None:
                continue
            job, result = built
            if isinstance(result, Failure):
                self.failure = result.reason
                self.builds.refuse(job, self.settings)
            else:
                self.served.append(result)
                if self.builds.accept(job, self.settings):
                    self.failure = ""

    def serves(self):
        """(text, backend, backend of the services) of what is served last."""
        return (
            (self.served[-1].text, self.served[-1].backend, self.served[-1].services) if self.served else None
        )


@pytest.fixture
def node():
    return Node()


def test_three_stages(node):
    node.describe("A")
    node.look(50)
    assert [(job.backend, job.services, job.tuned) for job in node.served] == [
        ("numpy", "numpy", True),
        ("auto", "numpy", False),
        ("auto", "auto", True),
    ]
    assert not node.builds.under_way and len(node.made) == 3


@pytest.mark.parametrize("every", [1, 2, 3, 5, 10])
def test_the_same_description_again_and_again_changes_nothing(node, every):
    for k in range(60):
        if k % every == 0:
            node.describe("A")
        node.look()
    assert node.serves() == ("A", "auto", "auto") and len(node.made) == 3


def test_a_stream_of_changing_descriptions_serves_something(node):
    """A new one at every look."""
    for k in range(100):
        node.describe(f"robot {k}")
        node.look()
    assert len(node.served) >= 100 // (STAGE + 2)
    assert int(node.serves()[0].split()[1]) >= 90
    node.look(50)
    assert node.serves() == ("robot 99", "auto", "auto")


def test_two_publishers_that_disagree(node):
    for _ in range(50):
        node.describe("A")
        node.describe("B")
        node.look()
    node.look(50)
    assert node.serves() == ("B", "auto", "auto")


@pytest.mark.parametrize("looks", range(12))
def test_a_good_description_overtaken_by_a_bad_one_is_served(node, looks):
    node.describe("A")
    node.look(50)
    node.describe("B")
    node.look(looks)
    node.describe("bad")
    node.look(60)
    assert node.serves() == ("B", "auto", "auto") and node.failure == "bad is refused"


@pytest.mark.parametrize("looks", range(12))
def test_the_first_description_overtaken_by_a_bad_one_is_served(node, looks):
    node.describe("A")
    node.look(looks)
    node.describe("bad")
    node.look(60)
    assert node.serves() == ("A", "auto", "auto") and node.failure == "bad is refused"


@pytest.mark.parametrize("looks", range(12))
def test_a_bad_description_overtaken_by_a_good_one(node, looks):
    node.describe("bad")
    node.look(looks)
    node.describe("A")
    node.look(60)
    assert node.serves() == ("A", "auto", "auto") and node.failure == ""


def test_the_one_served_comes_again_while_another_is_tried(node):
    node.describe("A")
    node.look(50)
    node.describe("bad")
    node.look()
    node.describe("A")
    node.look(50)
    assert node.serves() == ("A", "auto", "auto") and len(node.made) == 4
    node.describe("A")
    assert node.failure == "" and not node.builds.under_way


def test_the_one_served_comes_again_after_a_bad_one(node):
    """Also while its own compiled solver, resumed, is under way."""
    node.describe("A")
    node.look(6)
    node.describe("bad")
    node.look(6)
    assert node.failure and node.builds.under_way
    node.describe("A")
    node.look(50)
    assert node.serves() == ("A", "auto", "auto") and node.failure == ""


def test_a_bad_description_is_tried_again_when_it_comes_again(node):
    """What the node refuses for its settings may fit later."""
    node.describe("bad")
    node.look(10)
    node.describe("bad")
    assert node.builds.under_way and len(node.made) == 2


def test_one_that_takes_too_long_is_left_for_a_newer_one(node):
    node.describe("slow")
    node.look(10)
    node.describe("A")
    node.look(10, seconds=0.5 * PATIENCE / 10)
    assert not node.served and len(node.made) == 1
    node.look(30, seconds=PATIENCE / 10)
    assert node.serves() == ("A", "auto", "auto") and node.made[0].cancelled


def test_without_a_newer_one_it_may_take_its_time(node):
    node.describe("slow")
    node.look(50, seconds=PATIENCE)
    assert node.builds.under_way and len(node.made) == 1


def test_what_fails_by_no_fault_of_its_own_is_tried_once_more(node):
    node.describe("lost")
    node.look(60)
    assert node.serves() == ("lost", "auto", "auto") and not node.failure
    node.describe("hopeless")
    node.look(60)
    assert node.failure == "killed" and sum(b.job.text == "hopeless" for b in node.made) == 2
    assert node.serves() == ("lost", "auto", "auto") and not node.builds.under_way


@pytest.mark.parametrize("looks", [0, 2, 6, 12, 50])
def test_other_settings_take_force_at_once(node, looks):
    node.describe("A")
    node.look(looks)
    node.set(backend="numpy")
    node.look(60)
    assert node.serves() == ("A", "numpy", "numpy")
    node.set(backend="auto")
    node.look(60)
    assert node.serves() == ("A", "auto", "auto")


def test_other_settings_are_for_the_newest_description(node):
    node.describe("A")
    node.look()
    node.describe("B")
    node.set(backend="numpy")
    node.look(50)
    assert node.serves() == ("B", "numpy", "numpy") and len(node.served) == 1


def test_asked_to_build_again_it_does(node):
    node.describe("A")
    node.look(50)
    node.builds.repeat(node.settings)
    assert node.builds.under_way and node.made[-1].job == node.settings.job("A")


def test_nothing_to_build_again(node):
    node.builds.repeat(node.settings)
    assert not node.builds.under_way


@pytest.mark.parametrize("looks", [1, 4, 7])
def test_a_reload_during_a_build_is_built_after_it(node, looks):
    """Of the stage that is under way, too: it may have read a file before it changed. So do many reloads."""
    node.describe("A")
    node.look(looks)
    node.builds.renew(node.settings)
    node.describe("A")  # as a latched topic that comes again
    begun = len(node.made)
    for _ in range(50):
        node.look(1)
        if len(node.made) == begun:
            node.builds.renew(node.settings)
    assert len(node.made) > begun and node.made[begun].job.text == "A"
    assert node.served[-1] == node.settings.job("A") and not node.builds.under_way
