"""XML that may be hostile: no DTD, and so no entities.

As for TinyXML, which ROS uses, a name is its text: a prefix needs no declaration, a namespace has no meaning,
and blanks and comments may precede the XML declaration.
"""

from xml.etree import ElementTree
from xml.parsers import expat

from dynamics_node.errors import ModelError

MAX_BYTES = 8 * 1024 * 1024


def elements(text: str | bytes) -> ElementTree.Element:
    """The root element. Raises ModelError for over-sized or malformed XML and for a DTD."""
    try:
        size = len(text.encode() if isinstance(text, str) else text)
    except UnicodeEncodeError as error:
        raise ModelError(f"robot description is not valid text: {error}") from None
    if size > MAX_BYTES:
        raise ModelError(f"robot description has {size} bytes; the limit is {MAX_BYTES} (embed no meshes)")
    builder, parser = ElementTree.TreeBuilder(), expat.ParserCreate()
    parser.StartElementHandler, parser.EndElementHandler = builder.start, builder.end
    parser.CharacterDataHandler = builder.data
    parse(parser, text[length_of_head(text) :])
    return builder.close()


def parse(parser, text: str | bytes):
    """Run an expat parser. Raises ModelError for malformed XML and for a DTD."""
    parser.StartDoctypeDeclHandler = _reject
    parser.buffer_text = True
    try:
        parser.Parse(text, True)
    except ModelError:
        raise
    except (expat.ExpatError, ValueError, LookupError) as error:
        raise ModelError(f"robot description is malformed XML: {error}") from None


def _reject(*_):
    raise ModelError("robot description declares a DTD or an entity; remove it")


def length_of_head(text: str | bytes) -> int:
    """Where the XML declaration begins, after blanks and comments; 0 if there is none."""
    plain = text if isinstance(text, str) else text.decode("latin-1")
    at = _after_blanks(plain, 0)
    while plain.startswith("<!--", at):
        end = plain.find("-->", at + 4)
        if end < 0:
            return 0
        at = _after_blanks(plain, end + 3)
    return at if plain.startswith("<?xml", at) else 0


def _after_blanks(text, at):
    while text[at : at + 1].isspace():
        at += 1
    return at
