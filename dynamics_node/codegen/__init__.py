"""Program -> Runner: the interpreter, C (folder c), CUDA (folder cuda), rollouts, the compile cache."""

from dynamics_node.codegen.backends import DEVICES, make_runner
from dynamics_node.codegen.contact_rollout import ContactRollouts
from dynamics_node.codegen.cuda import ArrayError, lost, on_device
from dynamics_node.codegen.pd_loops import LoopGains, LoopPlaces, stable_damping
from dynamics_node.codegen.result_memory import new_array
from dynamics_node.codegen.rollout import Rollouts
from dynamics_node.codegen.runner import NoFastPath, Runner, WithFallback, finite_states
from dynamics_node.codegen.scan import Scan
