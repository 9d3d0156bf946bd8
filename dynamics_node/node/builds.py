"""Which robot description is served, and what is being built for it. Without ROS."""

from dataclasses import replace

from dynamics_node.node.build_job import COMPILING, Building, Failure, Job, Robot
from dynamics_node.node.settings import Settings


class Builds:
    """One Building at a time; what comes later, another description or other settings, replaces it.

    serving: whether there is a robot that goes on meanwhile.
    """

    def __init__(self):
        self._text: str | bytes = ""  # the description that is served, or the first to come
        self._building: Building | None = None
        self._result: Robot | Failure | None = None  # of the Building, not yet taken
        self._served: Job | None = None
        self._resumed: Job | None = None

    @property
    def under_way(self):
        return self._building is not None

    def describe(self, text, settings: Settings, serving):
        """Build a description. A new one is served by numpy first; what is wanted follows in two steps."""
        if not serving:
            self._text = text  # good or not: other parameters may make it good
        job = settings.job(text)
        if (not serving or text != self._text) and job.backend in COMPILING:
            job = replace(job, backend="numpy", services="numpy")
        self._start(job)

    def repeat(self, settings: Settings, serving):
        """Build the same description with other settings."""
        text = self._building.job.text if self._building is not None else self._text
        if text:
            self.describe(text, settings, serving)

    def step(self) -> tuple[Job, Robot | Failure] | None:
        """What was built, once. Receiving, unpacking and taking it are a call each: joint states are answered
        in between."""
        if self._building is None:
            return None
        if self._result is None:
            self._result = self._building.poll()
            return None
        built = (self._building.job, self._result)
        self._building = self._result = None
        return built

    def accept(self, job: Job, settings: Settings) -> bool:
        """The robot of a job is served now: build what is wanted instead, if that is something else. False
        when the job was under way before a description that was refused, whose reason still counts."""
        self._text, self._served = job.text, job
        if job != (wanted := settings.job(job.text)):
            topics_first = replace(wanted, services="numpy")
            self._start(wanted if job == topics_first else topics_first)
        return job is not self._resumed

    def refuse(self, job: Job, settings: Settings, serving):
        """A job has failed: resume what it replaced, if that was for the description that is served."""
        wanted = settings.job(self._text)
        if serving and job.text != self._text and self._served != wanted:
            self._resumed = wanted
            self._start(wanted)

    def cancel(self):
        """End what is under way."""
        if self._building is not None:
            self._building.cancel()
        self._building = self._result = None

    def _start(self, job):
        self.cancel()
        self._building = Building(job, aside=self._served is not None)
