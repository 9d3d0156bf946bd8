"""Which robot description is served, and what is being built for it. Without ROS."""

import time

from dynamics_node.node.building.build_job import Failure, Job, ServedRobot
from dynamics_node.node.building.build_process import Building
from dynamics_node.node.core.settings import Settings

PATIENCE = 10.0  # s that a description which is not served yet is built while a newer one waits


class Builds:
    """One Building at a time. A description is served by numpy first; what is wanted follows in two stages.

    A newer description waits until the first stage of the one before is done, so that something is served
    however fast they come; what is built beyond that it replaces. start: makes a Building of a Job and
    `aside`; clock: s.
    """

    def __init__(self, start=Building, clock=time.monotonic):
        self._make, self._clock = start, clock
        self._text: str | bytes = ""  # the description that is served, or the last to come
        self._building: Building | None = None
        self._started = 0.0
        self._wanted: Job | None = None  # what the Building leads to
        self._is_new = False  # nothing of what it builds is served yet
        self._again = False  # it is the second try
        self._result: ServedRobot | Failure | None = None  # of the Building, not yet taken
        self._waiting: Job | None = None  # what the newest description leads to
        self._served: Job | None = None
        self._resumed: Job | None = None

    @property
    def under_way(self):
        return self._building is not None

    def describe(self, text, settings: Settings) -> bool:
        """A description has come. One that is being built, or is served as the settings want it, changes
        nothing; True for the latter."""
        wanted = settings.job(text)
        if self._building is None and wanted == self._served:
            return True
        if self._building is not None and wanted == self._wanted:
            self._resumed = None
            if self._waiting != wanted:  # else its files are to be read again
                self._waiting = None
        elif self._building is not None and self._is_new:
            self._waiting = wanted
        else:
            self._begin(wanted)
        return False

    def repeat(self, settings: Settings):
        """Build the newest description again, with other settings or from other files."""
        newest = self._waiting or (self._building.job if self._building is not None else None)
        text = self._text if newest is None else newest.text
        if text:
            self._begin(settings.job(text))

    def renew(self, settings: Settings):
        """Build the newest description again, from files that may have changed.

        What is under way may have read them before, so this follows it."""
        if self._building is None:
            self.repeat(settings)
        else:
            self._waiting = settings.job((self._waiting or self._building.job).text)

    def step(self) -> tuple[Job, ServedRobot | Failure] | None:
        """What was built, once. Receiving, unpacking and taking it are a call each: joint states are answered
        in between. What has failed by no fault of the description is tried once more."""
        if self._building is None:
            return None
        if self._result is None:
            self._result = self._building.poll()
            if self._result is None and self._waiting and self._clock() - self._started > PATIENCE:
                self._begin(self._waiting)
            return None
        job, result = self._building.job, self._result
        if isinstance(result, Failure) and result.passing and not self._again:
            self._start(job, again=True)
            return None
        self._building = self._result = None
        return job, result

    def accept(self, job: Job, settings: Settings) -> bool:
        """The robot of a job is served now: build what is wanted instead, if that is something else. False
        when the job was under way before a description that was refused, whose reason still counts."""
        self._text, self._served = job.text, job
        if self._waiting:
            self._begin(self._waiting)
        elif job != (wanted := settings.job(job.text)):
            topics_first = wanted.topics_first()
            self._wanted, self._is_new = wanted, False
            self._start(wanted if job == topics_first else topics_first)
        return job is not self._resumed

    def refuse(self, job: Job, settings: Settings):
        """A job has failed: take the description that waits, or resume what was replaced."""
        wanted = settings.job(self._text)
        if self._waiting and self._waiting != self._served:
            self._begin(self._waiting)
        elif self._served is not None and job.text != self._text and self._served != wanted:
            self._resumed = self._wanted = wanted
            self._is_new = False
            self._start(wanted)

    def cancel(self):
        """End what is under way."""
        if self._building is not None:
            self._building.cancel()
        self._building = self._result = None

    def _begin(self, wanted: Job):
        """Build towards it, in place of all that is under way or waits."""
        self._is_new = self._served is None or wanted.text != self._text
        if self._served is None:
            self._text = wanted.text  # good or not: other parameters may make it good
        self._wanted, self._waiting = wanted, None
        self._start(wanted.first() if self._is_new else wanted)

    def _start(self, job, again=False):
        self.cancel()
        self._again, self._started = again, self._clock()
        self._building = self._make(job, aside=self._served is not None)
