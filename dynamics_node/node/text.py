"""Text from others, made fit for logs, diagnostics and replies."""

LONGEST = 500  # characters


def shown(text: object, longest: int = LONGEST) -> str:
    """Text on one line without control characters, cut to `longest`.

    Names come from the network: a line feed in one would forge a line of the log, an escape sequence or a
    change of direction would hide one. What cannot be printed is written as Python writes it.
    """
    text = str(text)
    more = len(text) - longest
    if more > 0:
        text = text[:longest]
    if not text.isprintable():
        text = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in text)
    return f"{text} ... ({more} more characters)" if more > 0 else text
