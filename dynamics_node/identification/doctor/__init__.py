"""Problems of the inertias in a robot description, their probable causes and remedies."""

from dynamics_node.identification.doctor.diagnosis import diagnose
from dynamics_node.identification.doctor.doctor_page import write_page
from dynamics_node.identification.doctor.faults import nearest_consistent, repairs
from dynamics_node.identification.doctor.report import examine, lines
