"""Names and numbers in generated source. Names of a robot come from the network: they get into an identifier,
a string literal or a comment only through these functions."""

import re

import numpy as np

_RESERVED = """
    auto break case char const continue default do double else enum extern float for goto if inline int
    long register restrict return short signed sizeof static struct switch typedef union unsigned void
    volatile while alignas alignof and and_eq asm bitand bitor bool catch char8_t char16_t char32_t class
    compl concept consteval constexpr constinit const_cast co_await co_return co_yield decltype delete
    dynamic_cast explicit export false friend mutable namespace new noexcept not not_eq nullptr operator
    or or_eq private protected public reinterpret_cast requires static_assert static_cast template this
    thread_local throw true try typeid typename using virtual wchar_t xor xor_eq main
    all clean edit_cache help install list_install_components package package_source rebuild_cache run_tests
    test c dl gcc m pthread rt util
"""  # words of C and C++; targets of CMake; libraries of the system
RESERVED = frozenset(_RESERVED.split())
LONGEST_IDENTIFIER = 48  # characters of an identifier
_LOCAL = re.compile(
    r"[rtsw]\d*|unused\d+|sinf?|cosf?|arg|res|iw|mem|zeros|i|j|k"
)  # values of generated functions


def identifier(text: str, otherwise: str = "robot") -> str:
    """The text as an identifier of C and C++: [a-z0-9_], not reserved, no double underscore."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")[:LONGEST_IDENTIFIER].strip("_") or otherwise
    if name[0].isdigit() or name in RESERVED:
        name = f"{otherwise}_{name}"
    return name


def identifiers(names) -> list[str]:
    """Different identifiers of names, none of which is a local of generated functions."""
    made: list[str] = []
    for name in names:
        base = identifier(name, "value")
        base = f"value_{base}" if _LOCAL.fullmatch(base) else base
        count = 2
        unique = base
        while unique in made:
            unique, count = f"{base}_{count}", count + 1
        made.append(unique)
    return made


def c_string(text: str) -> str:
    """A string literal of the UTF-8 bytes of the text: letters, digits and underscores, the rest in octal."""
    plain = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789_"
    return '"' + "".join(chr(b) if b in plain else f"\\{b:03o}" for b in text.encode()) + '"'


def plain(name: str) -> str:
    """A name in a text that people read, without what formats or ends it."""
    return re.sub(r"[^A-Za-z0-9_./ -]", "_", name)


def in_comment(text: str) -> str:
    """The text as part of a comment: characters that might end or continue one are underscores."""
    return re.sub(r"[^A-Za-z0-9_.,;:()=/^\[\] -]", "_", text)


def number(value: float, precision: str) -> str:
    """A literal, exact in the precision; negative ones in parentheses."""
    text = repr(float(value)) if precision == "float64" else f"{np.float32(value)!s}f"
    return f"({text})" if value < 0 else text
