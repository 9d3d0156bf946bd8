"""Pages that open from disk: the frame that they share, tables, curves as SVG. No script, nothing from
elsewhere; texts of titles, tables, lists and labels are escaped, parts of a document are HTML already."""

from dynamics_node.page.curves import Curve, panel
from dynamics_node.page.frame import document, listed, table, written
from dynamics_node.page.thinned import Thinned

__all__ = ["Curve", "Thinned", "document", "listed", "panel", "table", "written"]
