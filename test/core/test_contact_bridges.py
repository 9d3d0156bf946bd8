"""Functions with contacts in JAX, PyTorch, CasADi, an FMU and exported C: values, and derivatives of `derivatives`."""

import compilers
import numpy as np
import pytest
from bridged import float64_in_jax, require_tangent
from exports import compile_tests, require_tool
from test_wheels import RADIUS, body, joint, robot_from, standing_disc

import dynamics_node as dn

compilers.require("cc", module=True)
COUNT = 3
DIFFERENTIATED = (0, 1, 2, 4)  # q, qd, tau or qdd, contact_accelerations
CASES = [("arm", "forward_dynamics"), ("disc", "forward_dynamics"), ("disc", "inverse_dynamics")]


def arm():
    """Four joints, and a point that is held: three rows."""
    places = [
        ((0, 0, 1), (0, 0, 0)),
        ((0, 1, 0), (0, 0, 0.3)),
        ((0, 1, 0), (0.4, 0, 0)),
        ((1, 0, 0), (0.1, 0, 0.3)),
    ]
    links = [f"l{k}" for k in range(5)]
    return robot_from(
        '<link name="l0"/>',
        *(body(name, 2.0, (0.02, 0.03, 0.04), (0.05, 0.01, 0.1)) for name in links[1:]),
        *(
            joint(f"j{k}", "continuous", links[k], links[k + 1], axis=axis, xyz=xyz)
            for k, (axis, xyz) in enumerate(places)
        ),
        floating_base=False,
    )


def built(case, quantity):
    """A Function, and arguments of states: the last contact accelerations are not zero."""
    random = np.random.default_rng(5)
    if case == "disc":
        robot, _, q, qd = standing_disc(COUNT, seed=2)
        contact = dn.Contact("disc", "wheel", radius=RADIUS)
    else:
        robot = arm()
        q, qd = random.uniform(-1, 1, (2, COUNT, 4))
        contact = dn.Contact("l4", xyz=(0.1, 0.2, 0.1))
    function = dn.build(robot, quantity, contacts=contact, backend="numpy")
    tau, wanted = random.uniform(-1, 1, (COUNT, robot.nv)), random.uniform(-1, 1, (COUNT, 3))
    return function, (q, qd, tau, np.ones((COUNT, 1)), wanted)


def require_equal(function, states, results, blocks):
    """blocks: for every result and DIFFERENTIATED argument an array (COUNT, rows, entries)."""
    right, derivatives = function(*states), function.derivatives()(*states)
    by_state = derivatives[:3], derivatives[3:]
    for result, expected in zip(results, right, strict=True):
        assert np.allclose(result, expected, rtol=0, atol=1e-11 * max(1, np.abs(expected).max()))
    for row, (own, exact) in enumerate(zip(blocks, by_state, strict=True)):
        for k in range(COUNT):
            require_tangent(function.robot, states[0][k], own[0][k], exact[0][k])
        for found, expected in zip(own[1:3], exact[1:], strict=True):
            assert np.allclose(found, expected, rtol=0, atol=1e-9 * max(1, np.abs(expected).max()))
        for entry in range(3):  # results are linear in contact accelerations
            moved = [array.copy() for array in states]
            moved[4][:, entry] += 1.0
            slope = function(*moved)[row] - right[row]
            assert np.allclose(own[3][..., entry], slope, rtol=0, atol=1e-9 * max(1, np.abs(slope).max()))


@pytest.mark.parametrize(("case", "quantity"), CASES)
def test_jax(case, quantity):
    jax = pytest.importorskip("jax", reason="pip install jax")
    function, states = built(case, quantity)
    with float64_in_jax():
        bridge = function.jax()
        forward = jax.vmap(jax.jacfwd(bridge, DIFFERENTIATED))(*states)
        backward = jax.vmap(jax.jacrev(bridge, DIFFERENTIATED))(*states)
        blocks = [[np.array(block) for block in result] for result in forward]
        require_equal(function, states, [np.array(result) for result in bridge(*states)], blocks)
        for one, other in zip(blocks, backward, strict=True):
            for a, b in zip(one, other, strict=True):
                assert np.allclose(a, b, rtol=0, atol=1e-11 * max(1, np.abs(a).max()))


@pytest.mark.parametrize(("case", "quantity"), CASES)
def test_torch(case, quantity):
    torch = pytest.importorskip("torch", reason="pip install torch", exc_type=ImportError)
    function, states = built(case, quantity)
    bridge, tensors = function.torch(), [torch.from_numpy(array) for array in states]
    forward = torch.func.vmap(torch.func.jacfwd(bridge, DIFFERENTIATED))(*tensors)
    backward = torch.func.vmap(torch.func.jacrev(bridge, DIFFERENTIATED))(*tensors)
    blocks = [[block.numpy() for block in result] for result in forward]
    require_equal(function, states, [result.numpy() for result in bridge(*tensors)], blocks)
    for one, other in zip(blocks, backward, strict=True):
        for a, b in zip(one, other, strict=True):
            assert np.allclose(a, b.numpy(), rtol=0, atol=1e-11 * max(1, np.abs(a).max()))


@pytest.mark.parametrize(("case", "quantity"), CASES)
def test_casadi(case, quantity):
    pytest.importorskip("casadi", reason="pip install casadi")
    function, states = built(case, quantity)
    bridge = function.casadi()
    results, blocks = [[], []], [[[] for _ in DIFFERENTIATED] for _ in range(2)]
    for state in zip(*states, strict=True):
        values, found = bridge(*state), bridge.jacobian()(*state, 0, 0)
        for row in range(2):
            results[row].append(np.array(values[row])[:, 0])
            for k, argument in enumerate(DIFFERENTIATED):
                blocks[row][k].append(np.array(found[5 * row + argument]))
    require_equal(function, states, results, [[np.stack(block) for block in row] for row in blocks])


@pytest.mark.parametrize(("case", "quantity"), CASES)
def test_exported_code(case, quantity, tmp_path):
    """The test programs compare values and derivatives with the interpreter at states with active contacts."""
    function, _ = built(case, quantity)
    for folder, own in (("values", function), ("derivatives", function.derivatives())):
        (tmp_path / folder).mkdir()
        own.export(tmp_path / folder)
        assert len(compile_tests(tmp_path / folder, flags=["-O0"])) == len(own.result._fields)


@pytest.mark.optimized
@pytest.mark.parametrize("differentiated", [False, True])
def test_fmu(differentiated, tmp_path):
    """Values and derivatives of an arm, with a contact that is active or not."""
    fmpy = pytest.importorskip("fmpy", reason="pip install fmpy")
    require_tool("cmake")
    from fmpy.build import build_platform_binary
    from fmpy.validation import validate_fmu

    function, states = built("arm", "forward_dynamics")
    own = function.derivatives() if differentiated else function
    (path,) = own.export(tmp_path, "fmu")
    assert validate_fmu(str(path)) == []
    folder = fmpy.extract(str(path), str(tmp_path / "extracted"))
    build_platform_binary(folder, configuration="Release")
    names = ("q", "qd", "tau", "active", "contact_accelerations")
    for active in (1.0, 0.0):
        state = [array[0] for array in states]
        state[3] = np.array([active])
        times = {"stop_time": 0.002, "step_size": 0.001}
        values = dict(zip(names, map(list, state), strict=True))
        done = fmpy.simulate_fmu(str(folder), **times, start_values=values, output=own.result._fields)
        for name, expected in own(*state)._asdict().items():
            assert np.allclose(done[name][-1], expected, rtol=0, atol=1e-10 * max(1, np.abs(expected).max()))
