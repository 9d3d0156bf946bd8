"""Problems of the inertias in a robot description, their probable causes and remedies."""

from dynamics_node.identification.doctor.diagnosis import Finding, LinkFacts, diagnose
from dynamics_node.identification.doctor.doctor_page import page, write_page
from dynamics_node.identification.doctor.faults import nearest_consistent, repairs
from dynamics_node.identification.doctor.report import DoctorReport, examine, lines

__all__ = [
    "DoctorReport",
    "Finding",
    "LinkFacts",
    "diagnose",
    "examine",
    "lines",
    "nearest_consistent",
    "page",
    "repairs",
    "write_page",
]
