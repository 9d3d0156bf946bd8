"""--help of the nodes, which starts no node."""

import pytest

from dynamics_node.node import main as node
from dynamics_node.node.estimator import __main__ as estimator
from dynamics_node.node.usage import help_requested


@pytest.mark.parametrize(
    ("module", "executable", "config"),
    [(node, "dynamics_node", "dynamics.yaml"), (estimator, "dynamics_estimator", "estimator.yaml")],
)
@pytest.mark.parametrize("flag", ["-h", "--help"])
def test_help_lists_parameters_and_starts_no_node(module, executable, config, flag, capsys, monkeypatch):
    monkeypatch.setattr(node, "import_module", None)
    assert module.main([flag]) == 0
    out = capsys.readouterr().out
    assert out.startswith(f"usage: ros2 run dynamics_node {executable} ") and f"config/{config}" in out
    assert all(f"\n  {name} " in out for name in module.IMPORTANT)


@pytest.mark.parametrize(
    ("arguments", "requested"),
    [(["--help", "--ros-args"], True), (["--ros-args", "-r", "-h"], False), ([], False)],
)
def test_arguments_of_ros_are_not_read(arguments, requested):
    assert help_requested(arguments) == requested
