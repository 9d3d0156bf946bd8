"""The robot in use, and its updates by new descriptions and settings. Without ROS."""

import contextlib
from collections.abc import Callable
from pathlib import Path
from typing import Any, Protocol

from dynamics_node.errors import InputError, ModelError
from dynamics_node.node.building.build_job import Failure, Job, ServedRobot
from dynamics_node.node.building.build_process import Builds
from dynamics_node.node.core.consistency import check_against, check_job
from dynamics_node.node.core.dynamics_core import Core
from dynamics_node.robot.loading import expanded
from dynamics_node.robot.safe_files import file_trouble, read_regular_file
from dynamics_node.robot.safe_xml import MAX_BYTES
from dynamics_node.text import one_line

MOST_WARNINGS = 20  # of a robot description, in the log


class Log(Protocol):
    """The methods of an rclpy logger in use."""

    def info(self, text: str, /) -> object: ...
    def warning(self, text: str, /) -> object: ...
    def error(self, text: str, /) -> object: ...


class RobotManager:
    """core: the robot in use, None before the first; failure: error of the last description, or "".

    began(): called when a build may have started, after which `step` is to be called. make(robot, settings)
    returns a core. check(settings, robot) raises ValueError if they do not match; check_build likewise, if no
    robot can be built with them.
    """

    def __init__(
        self,
        settings: Any,
        log: Log,
        began: Callable[[], object],
        builds: Builds | None = None,
        make: Callable[[Any, Any], Any] = Core,
        check: Callable[[Any, Any], object] = check_against,
        check_build: Callable[[Any, Any], object] = check_job,
    ):
        self.settings = settings
        self.core: Any = None
        self.failure = ""
        self._log, self._began, self._make = log, began, make
        self._check, self._check_build = check, check_build
        self._builds = builds or Builds()
        self._line = ""  # the last summary in the log
        self._note = ""  # the last note in the log
        self._topic_ignored = False

    @property
    def building(self) -> bool:
        return self._builds.is_building

    # --- descriptions -------------------------------------------------------------------------

    def load_configured(self):
        """Load the description that parameters specify, if any."""
        if self.settings.robot_description:
            self._describe(self.settings.robot_description)
        elif self.settings.robot_description_file:
            try:
                text = _content(self.settings.robot_description_file)
            except OSError as error:
                self._fail(f"robot_description_file: {file_trouble(error)}")
            except (ImportError, ModelError) as error:
                self._fail(f"robot_description_file: {one_line(error)}")
            else:
                self._describe(text)

    def describe(self, text: str):
        """Build a description of the topic, unless parameters specify one."""
        if not self._ignore_topic():
            self._describe(text)

    def reject_length(self, count: int):
        """Reject a description of the topic that has too many bytes."""
        if not self._ignore_topic():
            self._fail(f"robot description has {count} bytes; the limit is {MAX_BYTES}: do not embed meshes")

    def reload(self) -> tuple[bool, str]:
        """Build again from files that may have changed: whether a build started, and a message."""
        self._builds.renew(self.settings)
        self._began()
        self.load_configured()
        if self.building:
            return True, "building"
        return False, self.failure or "no robot description yet"

    def _ignore_topic(self) -> bool:
        """Whether parameters specify the description; logged once."""
        if not any(_given(self.settings)):
            return False
        if not self._topic_ignored:
            self._log.info("robot_description on the topic is ignored: a parameter specifies the description")
        self._topic_ignored = True
        return True

    def _describe(self, text):
        if self._builds.describe(text, self.settings):
            self.failure = ""  # of a later description
        self._began()

    def _rebuild(self):
        """Build the current description with other parameters."""
        self._builds.repeat(self.settings)
        self._began()

    # --- settings -----------------------------------------------------------------------------

    def check(self, settings: Any):
        """Raise ValueError if settings do not match the robot in use."""
        new, old = settings.job(""), self.settings.job("")
        if self.core is not None and (new.choices, new.names) == (old.choices, old.names):
            self._check(settings, self.core.unloaded)
            if new != old:
                self._check_build(settings, self.core.unloaded)

    def use(self, settings: Any):
        """Apply settings at once, or by a rebuild of the robot."""
        old, self.settings = self.settings, settings
        if _given(old) != _given(settings):
            self.load_configured()
        elif old.job("") != settings.job("") or (self.core is None and self.failure):
            self._rebuild()
        elif self.core is not None:
            self.core.apply(settings)

    # --- robots -------------------------------------------------------------------------------

    def step(self) -> bool:
        """Poll the build; True if its robot is in use now."""
        built = self._builds.step()
        return built is not None and self._take(*built)

    def cancel(self):
        """End the current build."""
        self._builds.cancel()

    def drop(self):
        """End the current build, and drop the robot until a description or `reload`."""
        self.cancel()
        self.core, self.failure = None, ""

    def _take(self, job: Job, result: ServedRobot | Failure) -> bool:
        """Use the result of a build, or store its error."""
        try:
            if isinstance(result, Failure):
                raise InputError(result.reason)
            self._check(self.settings, result)
        except ValueError as error:
            self._fail(str(error))
            self._builds.reject(job, self.settings)
            return False
        if self._builds.accept(job, self.settings):
            self.failure = ""
        self._serve(result)
        return True

    def _fail(self, reason):
        """Log the error and keep the last robot, with the settings that need no rebuild."""
        self.failure = reason = one_line(reason)
        if self.core is not None:
            with contextlib.suppress(ValueError):
                self._check(self.settings, self.core.unloaded)
                self.core.apply(self.settings)
        self._log.error(reason)

    def _serve(self, robot):
        loaded = self._payloads()
        if self.core is not None and self.core.serves(robot.model):
            self.core.replace(robot, self.settings)
        else:
            self.core = self._make(robot, self.settings)
            self._line = ""
            self._warn(robot.model.warnings)
        self._warn_of_dropped(loaded)
        for note in robot.notes:
            if note != self._note:
                self._log.warning(one_line(note))
            self._note = note
        line = self.core.summary
        if line != self._line:  # the same line: services have received their solvers
            self._log.info(line)
        self._line = line

    def _payloads(self):
        """Links with a payload; the core of an estimator has none."""
        return tuple(getattr(self.core, "payloads", ()))

    def _warn_of_dropped(self, before):
        """Name the links whose payloads the new robot does not have."""
        for link in before:
            if link not in self._payloads():
                self._log.warning(f"the new robot has no payload on {one_line(link)!r}: set it again")

    def _warn(self, warnings):
        """Log the first warnings; a large robot has thousands."""
        for warning in warnings[:MOST_WARNINGS]:
            self._log.warning(one_line(warning))
        if (more := len(warnings) - MOST_WARNINGS) > 0:
            self._log.warning(f"and {more} more warnings: see `dynamics info`")


def _content(path):
    """The text of a file, expanded if it is xacro: it is a file of this machine, named at the start."""
    text = read_regular_file(path, MAX_BYTES + 1)
    return expanded(path, {}) if Path(path).suffix == ".xacro" else text


def _given(settings):
    return settings.robot_description, settings.robot_description_file
