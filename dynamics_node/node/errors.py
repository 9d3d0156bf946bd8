"""Errors of the node: rejected messages, reasons for no output, and when the log repeats a reason."""

import re

REPORTS_BEFORE_LOG = 2  # reports without output before the first log line
REPORTS_BETWEEN_LOGS = 10  # reports from there to the next log line

NO_STATES = "no message has arrived on the topic joint_states"
LEAVE_OUT = "list the moving joints in `joints`, or map names with `joint_names.from` and `joint_names.to`"
DIFFERENTIATE = "set velocity_source:=differentiate to differentiate positions, or zero to ignore velocities"
_NUMBER = re.compile(r"(?<!\S)-?[\d.]+(e[-+]?\d+)?(?!\S)", re.ASCII)
GIVE_ODOM = "publish odom, or set floating_base:=false if the base is fixed"


class BadMessage(ValueError):
    """A message is invalid and is dropped; the text is the reason."""


class NoOutput(Exception):
    """Nothing can be published. reason: a text, or the error of a solver, whose text may be computed lazily.
    stale: the input was complete before; remedy: the suggested fix."""

    def __init__(self, reason, stale=False, remedy=""):
        super().__init__(reason)
        self.stale, self.remedy = stale, remedy

    @property
    def with_remedy(self) -> str:
        """The reason, followed by the suggested fix."""
        return "; ".join(filter(None, (str(self), self.remedy)))


NO_DESCRIPTION = NoOutput(
    "no robot description yet",
    remedy="publish it on the topic robot_description, or set robot_description_file",
)
NO_STATE = NoOutput("no joint state yet", remedy=NO_STATES)


class Reminder:
    """Log lines for lasting trouble: after REPORTS_BEFORE_LOG reports, when the trouble changes in more than
    numbers, and every REPORTS_BETWEEN_LOGS reports after that."""

    def __init__(self):
        self._count, self._logged = 0, ""

    def next(self, trouble: str, remedy: str = "") -> str:
        """The log line of one report, "" for none. trouble: "" while all is well."""
        self._count = self._count + 1 if trouble else 0
        if self._count < REPORTS_BEFORE_LOG:
            self._logged = ""
            return ""
        words = _NUMBER.sub("", trouble)
        if words == self._logged and self._count % REPORTS_BETWEEN_LOGS != REPORTS_BEFORE_LOG:
            return ""
        self._logged = words
        return "; ".join(filter(None, (trouble, remedy)))
