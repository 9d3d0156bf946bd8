"""Which robot is served, and what becomes of a new description or new settings. Without ROS."""

import contextlib
from collections.abc import Callable
from typing import Any, Protocol

from dynamics_node.node.building.build_job import Failure, Job, ServedRobot
from dynamics_node.node.building.build_process import Builds
from dynamics_node.node.core.consistency import check_against
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.robot.safe_files import file_trouble, read_regular_file
from dynamics_node.robot.urdf import MAX_BYTES
from dynamics_node.text import one_line

MOST_WARNINGS = 20  # of a robot description, in the log


class Log(Protocol):
    """What is used of a logger of rclpy."""

    def info(self, text: str, /) -> object: ...
    def warning(self, text: str, /) -> object: ...
    def error(self, text: str, /) -> object: ...


class RobotManager:
    """core: the robot that is served, None before the first; failure: why the last description is not, or "".

    began(): called whenever something may be under way that `step` is to be called for. make(robot, settings)
    gives a core; check(settings, robot) raises ValueError where they do not go together.
    """

    def __init__(
        self,
        settings: Any,
        log: Log,
        began: Callable[[], object],
        builds: Builds | None = None,
        make: Callable[[Any, Any], Any] = Core,
        check: Callable[[Any, Any], object] = check_against,
    ):
        self.settings = settings
        self.core: Any = None
        self.failure = ""
        self._log, self._began, self._make, self._check = log, began, make, check
        self._builds = builds or Builds()
        self._line = ""  # the last one on what is served
        self._note = ""  # of a ServedRobot, said once
        self._topic_ignored = False

    @property
    def building(self) -> bool:
        return self._builds.under_way

    # --- descriptions -------------------------------------------------------------------------

    def load_configured(self):
        """Take the description that parameters give, if they do."""
        if self.settings.robot_description:
            self._describe(self.settings.robot_description)
        elif self.settings.robot_description_file:
            try:
                text = read_regular_file(self.settings.robot_description_file, MAX_BYTES + 1)
            except OSError as error:
                self._fail(f"robot_description_file: {file_trouble(error)}")
            else:
                self._describe(text)

    def describe(self, text: str):
        """A description has come on the topic; the parameters win."""
        if not self._ignore_topic():
            self._describe(text)

    def refuse_length(self, count: int):
        """A description of so many bytes has come on the topic, which is too long to be looked at."""
        if not self._ignore_topic():
            self._fail(f"robot description has {count} bytes; the limit is {MAX_BYTES} (embed no meshes)")

    def reload(self) -> tuple[bool, str]:
        """Build again, from files that may have changed: whether something is built, and a message."""
        self._builds.renew(self.settings)
        self._began()
        self.load_configured()
        if self.building:
            return True, "building"
        return False, self.failure or "no robot description yet"

    def _ignore_topic(self) -> bool:
        """Whether parameters give the description; said once."""
        if not any(_given(self.settings)):
            return False
        if not self._topic_ignored:
            self._log.info("robot_description on the topic ignored: a parameter gives it")
        self._topic_ignored = True
        return True

    def _describe(self, text):
        if self._builds.describe(text, self.settings):
            self.failure = ""  # what came since was refused
        self._began()

    def _rebuild(self):
        """Build the present description anew with other parameters."""
        self._builds.repeat(self.settings)
        self._began()

    # --- settings -----------------------------------------------------------------------------

    def check(self, settings: Any):
        """Raise ValueError when settings cannot be used with the robot that is served."""
        new, old = settings.job(""), self.settings.job("")
        if self.core is not None and (new.choices, new.names) == (old.choices, old.names):
            self._check(settings, self.core.unloaded)

    def use(self, settings: Any):
        """Take over settings: at once, or by building the robot again."""
        old, self.settings = self.settings, settings
        if _given(old) != _given(settings):
            self.load_configured()
        elif old.job("") != settings.job("") or (self.core is None and self.failure):
            self._rebuild()
        elif self.core is not None:
            self.core.apply(settings)

    # --- robots -------------------------------------------------------------------------------

    def step(self) -> bool:
        """Look at what is being built; True when it is served from now on."""
        built = self._builds.step()
        return built is not None and self._take(*built)

    def cancel(self):
        """End a build under way."""
        self._builds.cancel()

    def _take(self, job: Job, result: ServedRobot | Failure) -> bool:
        """Serve what was built, or say why not."""
        try:
            if isinstance(result, Failure):
                raise ValueError(result.reason)
            self._check(self.settings, result)
        except ValueError as error:
            self._fail(str(error))
            self._builds.refuse(job, self.settings)
            return False
        if self._builds.accept(job, self.settings):
            self.failure = ""
        self._serve(result)
        return True

    def _fail(self, reason):
        """The last good robot goes on, with whatever settings need no building."""
        self.failure = reason = one_line(reason)
        if self.core is not None:
            with contextlib.suppress(ValueError):
                self._check(self.settings, self.core.unloaded)
                self.core.apply(self.settings)
        self._log.error(reason)

    def _serve(self, robot):
        if self.core is not None and self.core.serves(robot.model):
            self.core.replace(robot, self.settings)
        else:
            self.core = self._make(robot, self.settings)
            self._line = ""
            self._warn(robot.model.warnings)
        for note in robot.notes:
            if note != self._note:
                self._log.warning(one_line(note))
            self._note = note
        line = self.core.summary
        if line != self._line:  # else the services have got their solvers
            self._log.info(line)
        self._line = line

    def _warn(self, warnings):
        """A robot of thousands of links has thousands of them."""
        for warning in warnings[:MOST_WARNINGS]:
            self._log.warning(one_line(warning))
        if (more := len(warnings) - MOST_WARNINGS) > 0:
            self._log.warning(f"and {more} more warnings: see `dynamics info`")


def _given(settings):
    return settings.robot_description, settings.robot_description_file
