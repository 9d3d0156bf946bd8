"""Tables of states, recordings, plots and pages."""

from dynamics_node.io.differentiate import CUTOFF, USUAL_CUTOFF, Velocities
from dynamics_node.io.evaluate_tables import Comparison, Thinned, evaluate, over_dask
from dynamics_node.io.explain import make_report
from dynamics_node.io.explain_page import write_page
from dynamics_node.io.pages import Figures, Markdown, bold, bullet_list, page, table, text, written
from dynamics_node.io.plot import MATPLOTLIB_MISSING, check_plot, panel, plot_comparison, plot_curves, svg
from dynamics_node.io.read import open_table, position_ranges, read_table
from dynamics_node.io.tables import RecordingWarning, Table, later, recordings
from dynamics_node.io.write import check_table, table_writer

__all__ = [
    "CUTOFF",
    "MATPLOTLIB_MISSING",
    "USUAL_CUTOFF",
    "Comparison",
    "Figures",
    "Markdown",
    "RecordingWarning",
    "Table",
    "Thinned",
    "Velocities",
    "bold",
    "bullet_list",
    "check_plot",
    "check_table",
    "evaluate",
    "later",
    "make_report",
    "open_table",
    "over_dask",
    "page",
    "panel",
    "plot_comparison",
    "plot_curves",
    "position_ranges",
    "read_table",
    "recordings",
    "svg",
    "table",
    "table_writer",
    "text",
    "write_page",
    "written",
]
