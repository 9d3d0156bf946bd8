"""What the dynamics of one robot come to: its graph, an elimination, operation counts, generated code."""

from dynamics_node.explain.page import write_page
from dynamics_node.explain.report import Report, make_report

__all__ = ["Report", "make_report", "write_page"]
