"""What a kernel must not do, said with the instruction that did it."""


class Fault(RuntimeError):
    """A kernel that is wrong, or an instruction that is not known."""


def unknown(instruction):
    """The Fault of an instruction that nothing here can run."""
    return Fault(f"not known: {instruction.text}")
