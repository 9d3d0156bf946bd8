"""Tables of states, recordings, plots and pages."""

from dynamics_node.io.cluster import Tasks, connected
from dynamics_node.io.differentiate import CUTOFF, USUAL_CUTOFF, Velocities
from dynamics_node.io.evaluate_tables import Comparison, Thinned, evaluate
from dynamics_node.io.explain import make_report
from dynamics_node.io.explain_page import write_page
from dynamics_node.io.pages import Figures, bold, bullet_list, page, table, text, write_blocks
from dynamics_node.io.parts import TablePart, evaluate_part, part_names, parts_of, zarr_targets
from dynamics_node.io.plot import check_plot, panel, plot_comparison, plot_curves
from dynamics_node.io.read import open_table, position_ranges, read_table
from dynamics_node.io.tables import RecordingWarning, Table, later, recordings
from dynamics_node.io.write import check_table, table_writer
