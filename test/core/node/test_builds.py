"""The description that is built and served, for good and bad ones at any rate. No process, no ROS."""

from dataclasses import dataclass

import pytest

from dynamics_node.node.building.build_job import Failure, Job
from dynamics_node.node.building.build_process import FIRST_STAGE_TIMEOUT, Builds

STAGE = 3  # polls of a stage


@dataclass(frozen=True)
class Settings:
    """The settings that Builds reads."""

    backend: str = "auto"

    def job(self, text):
        services = "auto" if self.backend == "auto" else "numpy"
        return Job(text, {}, "inverse", backend=self.backend, services=services)


class FakeBuilding:
    """Takes STAGE polls; texts that begin with 'bad' fail, 'lost' fails transiently the first time."""

    def __init__(self, node, job):
        self.node, self.job, self.polls, self.cancelled = node, job, 0, False

    def poll(self):
        self.polls += 1
        if self.polls < STAGE or self.job.text.startswith("slow"):
            return None
        if self.job.text.startswith("bad"):
            return Failure(f"{self.job.text} is rejected")
        if self.job.text.startswith("lost") and sum(b.job == self.job for b in self.node.made) < 2:
            return Failure("killed", transient=True)
        if self.job.text.startswith("hopeless"):
            return Failure("killed", transient=True)
        return self.job

    def cancel(self):
        self.cancelled = True


class Node:
    """The calls of the node to Builds."""

    def __init__(self):
        self.now, self.made, self.served, self.failure = 0.0, [], [], ""
        self.settings = Settings()
        self.builds = Builds(self.start, lambda: self.now)

    def start(self, job, background):
        assert background == bool(self.served)
        self.made.append(FakeBuilding(self, job))
        return self.made[-1]

    def describe(self, text):
        if self.builds.describe(text, self.settings):
            self.failure = ""

    def set(self, **changes):
        self.settings = Settings(**changes)
        self.builds.repeat(self.settings)

    def poll_builds(self, times=1, seconds=0.02):
        for _ in range(times):
            self.now += seconds
            built = self.builds.step()
            if built is None:
                continue
            job, result = built
            if isinstance(result, Failure):
                self.failure = result.reason
                self.builds.reject(job, self.settings)
            else:
                self.served.append(result)
                if self.builds.accept(job, self.settings):
                    self.failure = ""

    def serves(self):
        """(text, backend, backend of the services) of the last served job."""
        return (
            (self.served[-1].text, self.served[-1].backend, self.served[-1].services) if self.served else None
        )


@pytest.fixture
def node():
    return Node()


def test_three_stages(node):
    node.describe("A")
    node.poll_builds(50)
    assert [(job.backend, job.services, job.tuned) for job in node.served] == [
        ("numpy", "numpy", True),
        ("auto", "numpy", False),
        ("auto", "auto", True),
    ]
    assert not node.builds.is_building and len(node.made) == 3


@pytest.mark.parametrize("every", [1, 2, 3, 5, 10])
def test_repeated_descriptions_change_nothing(node, every):
    for k in range(60):
        if k % every == 0:
            node.describe("A")
        node.poll_builds()
    assert node.serves() == ("A", "auto", "auto") and len(node.made) == 3


def test_a_stream_of_descriptions_serves_some_of_them(node):
    """A new description at every poll."""
    for k in range(100):
        node.describe(f"robot {k}")
        node.poll_builds()
    assert len(node.served) >= 100 // (STAGE + 2)
    assert int(node.serves()[0].split()[1]) >= 90
    node.poll_builds(50)
    assert node.serves() == ("robot 99", "auto", "auto")


def test_the_last_description_of_two_publishers_is_served(node):
    for _ in range(50):
        node.describe("A")
        node.describe("B")
        node.poll_builds()
    node.poll_builds(50)
    assert node.serves() == ("B", "auto", "auto")


@pytest.mark.parametrize("polls", range(12))
def test_a_good_description_before_a_bad_one_is_served(node, polls):
    node.describe("A")
    node.poll_builds(50)
    node.describe("B")
    node.poll_builds(polls)
    node.describe("bad")
    node.poll_builds(60)
    assert node.serves() == ("B", "auto", "auto") and node.failure == "bad is rejected"


@pytest.mark.parametrize("polls", range(12))
@pytest.mark.parametrize("first, second, failure", [("A", "bad", "bad is rejected"), ("bad", "A", "")])
def test_the_first_good_description_beside_a_bad_one_is_served(node, first, second, failure, polls):
    node.describe(first)
    node.poll_builds(polls)
    node.describe(second)
    node.poll_builds(60)
    assert node.serves() == ("A", "auto", "auto") and node.failure == failure


def test_the_served_description_repeats_while_a_bad_one_is_built(node):
    node.describe("A")
    node.poll_builds(50)
    node.describe("bad")
    node.poll_builds()
    node.describe("A")
    node.poll_builds(50)
    assert node.serves() == ("A", "auto", "auto") and len(node.made) == 4
    node.describe("A")
    assert node.failure == "" and not node.builds.is_building


def test_the_served_description_repeats_after_a_bad_one(node):
    """Also while its resumed compilation is running."""
    node.describe("A")
    node.poll_builds(6)
    node.describe("bad")
    node.poll_builds(6)
    assert node.failure and node.builds.is_building
    node.describe("A")
    node.poll_builds(50)
    assert node.serves() == ("A", "auto", "auto") and node.failure == ""


def test_a_repeated_bad_description_is_built_again(node):
    """A description that the settings rejected may match later."""
    node.describe("bad")
    node.poll_builds(10)
    node.describe("bad")
    assert node.builds.is_building and len(node.made) == 2


def test_a_slow_build_is_canceled_for_a_newer_description(node):
    node.describe("slow")
    node.poll_builds(10)
    node.describe("A")
    node.poll_builds(10, seconds=0.5 * FIRST_STAGE_TIMEOUT / 10)
    assert not node.served and len(node.made) == 1
    node.poll_builds(30, seconds=FIRST_STAGE_TIMEOUT / 10)
    assert node.serves() == ("A", "auto", "auto") and node.made[0].cancelled


def test_a_slow_build_continues_without_a_newer_description(node):
    node.describe("slow")
    node.poll_builds(50, seconds=FIRST_STAGE_TIMEOUT)
    assert node.builds.is_building and len(node.made) == 1


def test_a_transient_failure_is_retried_once(node):
    node.describe("lost")
    node.poll_builds(60)
    assert node.serves() == ("lost", "auto", "auto") and not node.failure
    node.describe("hopeless")
    node.poll_builds(60)
    assert node.failure == "killed" and sum(b.job.text == "hopeless" for b in node.made) == 2
    assert node.serves() == ("lost", "auto", "auto") and not node.builds.is_building


@pytest.mark.parametrize("polls", [0, 2, 6, 12, 50])
def test_new_settings_rebuild_at_once(node, polls):
    node.describe("A")
    node.poll_builds(polls)
    node.set(backend="numpy")
    node.poll_builds(60)
    assert node.serves() == ("A", "numpy", "numpy")
    node.set(backend="auto")
    node.poll_builds(60)
    assert node.serves() == ("A", "auto", "auto")


def test_new_settings_apply_to_the_newest_description(node):
    node.describe("A")
    node.poll_builds()
    node.describe("B")
    node.set(backend="numpy")
    node.poll_builds(50)
    assert node.serves() == ("B", "numpy", "numpy") and len(node.served) == 1


def test_repeat_builds_again(node):
    node.describe("A")
    node.poll_builds(50)
    node.builds.repeat(node.settings)
    assert node.builds.is_building and node.made[-1].job == node.settings.job("A")


def test_repeat_without_a_description_does_nothing(node):
    node.builds.repeat(node.settings)
    assert not node.builds.is_building


@pytest.mark.parametrize("polls", [1, 4, 7])
def test_a_reload_during_a_build_is_built_after_it(node, polls):
    """A running stage may have read the old file. The same holds for many reloads."""
    node.describe("A")
    node.poll_builds(polls)
    node.builds.renew(node.settings)
    node.describe("A")  # as repeated by a latched topic
    begun = len(node.made)
    for _ in range(50):
        node.poll_builds(1)
        if len(node.made) == begun:
            node.builds.renew(node.settings)
    assert len(node.made) > begun and node.made[begun].job.text == "A"
    assert node.served[-1] == node.settings.job("A") and not node.builds.is_building
