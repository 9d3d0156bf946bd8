"""What may be wrong with sensors."""


class SensorError(ValueError):
    """A sensor that cannot be: the message names it, says what is wrong and what to do."""
