"""What is wrong with the inertias of a robot description, its probable cause, and what to do about it."""

from dynamics_node.identification.doctor.diagnosis import Finding, LinkFacts, diagnose
from dynamics_node.identification.doctor.doctor_page import page, write_page
from dynamics_node.identification.doctor.faults import nearest_consistent, repairs
from dynamics_node.identification.doctor.report import Report, examine, lines

__all__ = [
    "Finding",
    "LinkFacts",
    "Report",
    "diagnose",
    "examine",
    "lines",
    "nearest_consistent",
    "page",
    "repairs",
    "write_page",
]
