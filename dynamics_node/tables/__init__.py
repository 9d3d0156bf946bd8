"""Tables of states: files and recordings read and written in chunks, and arrays of dask.

A table has a row for every state. In a file of columns they are named `q.JOINT`, `qd.JOINT`, `qdd.JOINT`,
`tau.JOINT` after the coordinates of the Robot, in an .npz file its arrays are q, qd, qdd, tau, each (rows,
coordinates); `time` may stand beside them.
"""

from dynamics_node.tables.compare import Comparison, Difference
from dynamics_node.tables.cutoff import CUTOFF, USUAL_CUTOFF
from dynamics_node.tables.evaluate import evaluate
from dynamics_node.tables.names import TableError
from dynamics_node.tables.over_dask import over_dask
from dynamics_node.tables.plot import check_plot, plot_comparison, plot_curves
from dynamics_node.tables.read import open_table, position_ranges, read_table
from dynamics_node.tables.table import Table
from dynamics_node.tables.velocities import Velocities
from dynamics_node.tables.write import table_writer

__all__ = [
    "CUTOFF",
    "USUAL_CUTOFF",
    "Comparison",
    "Difference",
    "Table",
    "TableError",
    "Velocities",
    "check_plot",
    "evaluate",
    "open_table",
    "over_dask",
    "plot_comparison",
    "plot_curves",
    "position_ranges",
    "read_table",
    "table_writer",
]
