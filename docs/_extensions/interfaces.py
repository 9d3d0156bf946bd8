"""Directives that print the tables of interface_tables.py, as Markdown in their place."""

import interface_tables
from sphinx.util.docutils import SphinxDirective


class Generated(SphinxDirective):
    """lines() -> the lines of Markdown in its place; a ValueError is a warning, which ends the build."""

    has_content = True
    optional_arguments = 2

    def run(self):
        """As docutils calls it."""
        try:
            lines = list(self.lines())
        except ValueError as error:
            raise self.error(str(error)) from error
        return self.parse_text_to_nodes("\n".join(lines) + "\n", allow_section_headings=True)


def directive(function):
    """A directive of function(*arguments)."""
    return type("Own", (Generated,), {"lines": lambda self: function(*self.arguments)})


class Topics(Generated):
    """`{topics} dynamics_node published`, with a line `topic: meaning` for each topic of the code."""

    def lines(self):
        """See Generated."""
        return interface_tables.topic_table(*self.arguments, self.content)


def setup(app):
    """As Sphinx calls it."""
    app.add_directive("topics", Topics)
    app.add_directive("parameters", directive(interface_tables.parameters))
    app.add_directive("launch", directive(interface_tables.launch))
    app.add_directive("services", directive(interface_tables.services))
    app.add_directive("messages", directive(interface_tables.messages))
    app.add_directive("command-line", directive(interface_tables.command_line))
    return {"parallel_read_safe": True}
