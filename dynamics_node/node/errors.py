"""Why a message is dropped, why nothing is published, and when the log repeats it."""

SILENCE_AFTER = 2  # reports of a silence before it is told
SILENCE_EVERY = 10  # reports from there to the next time

NO_STATES = "nothing has come on the topic joint_states"
LEAVE_OUT = "the parameter joints can leave out what nobody reports, joint_names.* pair other names"
DIFFERENTIATE = "velocity_source:=differentiate takes them from the positions, zero leaves them out"
GIVE_ODOM = "publish odom, or set floating_base:=false if the base stands still"


class BadMessage(ValueError):
    """A message that is dropped whole; the text is the reason."""


class NoOutput(Exception):
    """Why there is nothing to publish, in words or as the error of a solver, whose words may be found when
    they are read. stale: the input was good once; remedy: what may help, for people."""

    def __init__(self, reason, stale=False, remedy=""):
        super().__init__(reason)
        self.stale, self.remedy = stale, remedy


NO_DESCRIPTION = NoOutput(
    "no robot description yet",
    remedy="publish it on the topic robot_description, or give robot_description_file",
)
NO_STATE = NoOutput("no joint state yet", remedy=NO_STATES)


class Reminder:
    """Says in the terminal that a silence lasts: after SILENCE_AFTER reports, when its reason changes, and
    every SILENCE_EVERY reports from there."""

    def __init__(self):
        self._reports, self._told = 0, ""

    def next(self, because: str, remedy: str = "") -> str:
        """The line that a report adds to the log, "" for none. because: "" while there is no silence."""
        self._reports = self._reports + 1 if because else 0
        if self._reports < SILENCE_AFTER:
            self._told = ""
            return ""
        if because == self._told and self._reports % SILENCE_EVERY != SILENCE_AFTER:
            return ""
        self._told = because
        return f"silent: {because}" + (f"; {remedy}" if remedy else "")
