"""Tables of states, recordings, plots and pages."""

from dynamics_node.io.compare import Comparison, Difference
from dynamics_node.io.cutoff import CUTOFF, USUAL_CUTOFF
from dynamics_node.io.evaluate_tables import evaluate
from dynamics_node.io.explain_page import write_page
from dynamics_node.io.explain_report import Report, make_report
from dynamics_node.io.names import TableError
from dynamics_node.io.over_dask import over_dask
from dynamics_node.io.page_curves import Curve, panel
from dynamics_node.io.page_frame import document, listed, table, written
from dynamics_node.io.plot import check_plot, plot_comparison, plot_curves
from dynamics_node.io.read import open_table, position_ranges, read_table
from dynamics_node.io.table import Table
from dynamics_node.io.thinned import Thinned
from dynamics_node.io.velocities import Velocities
from dynamics_node.io.write import table_writer

__all__ = [
    "CUTOFF",
    "USUAL_CUTOFF",
    "Comparison",
    "Curve",
    "Difference",
    "Report",
    "Table",
    "TableError",
    "Thinned",
    "Velocities",
    "check_plot",
    "document",
    "evaluate",
    "listed",
    "make_report",
    "open_table",
    "over_dask",
    "panel",
    "plot_comparison",
    "plot_curves",
    "position_ranges",
    "read_table",
    "table",
    "table_writer",
    "write_page",
    "written",
]
