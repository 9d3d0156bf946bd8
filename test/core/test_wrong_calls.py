"""Calls as other libraries have them, and arguments at the wrong place: the error has the right call."""

import enum
import inspect
import pickle
import re

import numpy as np
import pytest
from cart_pole import CART
from robots import robot_of

import dynamics_node as dn
from dynamics_node.names import QUANTITY_NAMES
from dynamics_node.robot.wrong_calls import explains_wrong_calls

Q = np.array([0.0, -0.5, 0.0, -2.0, 0.0, 1.5, 0.8])
V = np.zeros(7)
HAND = "panda_hand"


class ReferenceFrame(enum.Enum):
    """Pinocchio's."""

    LOCAL = 1
    WORLD = 0
    LOCAL_WORLD_ALIGNED = 2
    ELSEWHERE = 3


def evaluate(name, *arrays, **options):
    return dn.evaluate(robot_of("panda7"), name, *arrays, backend="numpy", **options)


def function(name="inverse_dynamics", **options):
    return dn.build(robot_of("panda7"), name, backend="numpy", **options)


KEYWORDS = [  # call, keyword, the fitting one
    (lambda **own: function("frame_jacobian", **own), "frame", "link"),
    (lambda **own: function("frame_jacobian", **own), "ee_link", "link"),
    (lambda **own: function("operational_space_inertia", **own), "frames", "links"),
    (lambda **own: evaluate("frame_jacobian", Q, **own), "body", "link"),
    (lambda **own: function()(Q, **own), "dq", "qd"),
    (lambda **own: function()(Q, **own), "velocity", "qd"),
    (lambda **own: function()(Q, V, **own), "ddq", "qdd"),
    (lambda **own: function("forward_dynamics")(Q, V, **own), "u", "tau"),
    (lambda **own: function(f_ext=True)(Q, V, V, **own), "fext", "f_ext"),
    (lambda **own: dn.with_payload(robot_of("panda7"), mass=1.0, com=V[:3], **own), "frame", "link"),
    (lambda **own: dn.capability(robot_of("panda7"), q=Q, **own), "frame", "link"),
    (lambda **own: dn.effective_mass(robot_of("panda7"), q=Q, **own), "ee_link", "link"),
    (lambda **own: dn.integrate(robot_of("panda7"), Q, **own), "qd", "v"),
    (lambda **own: dn.simulate(robot_of("panda7"), **own), "q", "q0"),
    (lambda **own: dn.load_robot(**own), "urdf_path", "path"),
    (lambda **own: dn.load_robot("a.xacro", **own), "xacro_args", "xacro_arguments"),
    (lambda **own: dn.load_robot("a.urdf", **own), "free_flyer", "floating_base"),
    (lambda **own: dn.Contact("foot", **own), "mu", "friction"),
    (lambda **own: dn.Plane(**own), "mu", "friction"),
    (lambda **own: function("forward_dynamics").rollout(Q, V, **own), "ctrl", "controls"),
    (lambda **own: function("forward_dynamics").rollout(Q, V, V, **own), "timestep", "dt"),
    (lambda **own: function("forward_dynamics").nearest(Q, V, **own), "wrenches", "f_ext"),
    (lambda **own: function().export("out", **own), "targets", "target"),
    (lambda **own: dn.ObserverOptions(velocity_std=1.0, torque_std=1.0, **own), "ee_link", "link"),
]


@pytest.mark.parametrize("call, keyword, fitting", KEYWORDS)
def test_a_keyword_of_another_library_leads_to_the_one_here(call, keyword, fitting):
    with pytest.raises(TypeError, match=rf"takes .*\b{fitting}\b.*, not '{keyword}'; .*\b{fitting}\b"):
        call(**{keyword: V})


def test_a_keyword_lists_those_of_the_quantity():
    with pytest.raises(TypeError) as error:
        function("frame_jacobian", colour=1)
    assert re.search(r"frame_jacobian takes link, reference, solver,.*, not 'colour'$", str(error.value))


def test_arguments_of_the_build_are_named_at_the_call():
    with pytest.raises(
        TypeError, match=r"link is an option of dn.build\(robot, 'frame_jacobian', link=...\)"
    ):
        function("frame_jacobian", link=HAND)(Q, link=HAND)
    with pytest.raises(TypeError, match="external wrenches: build it with f_ext=True"):
        function()(Q, V, V, fext=V)
    with pytest.raises(TypeError, match="inverse_dynamics got q by position and by name"):
        function()(Q, V, V, q=Q)


@pytest.mark.parametrize("name", ["rnea", "inverse_dynamics", "crba", "mass_matrix", "computeMinverse"])
def test_quantities_are_no_methods(name):
    here = {"rnea": "inverse_dynamics", "crba": "mass_matrix", "computeMinverse": "inverse_mass_matrix"}
    for owner in (robot_of("panda7"), *([dn] if name != "inverse_dynamics" else [])):
        with pytest.raises(AttributeError, match=rf"{name}.*dn.evaluate\(robot, '{here.get(name, name)}', "):
            getattr(owner, name)


@pytest.mark.parametrize("owner, name, hint", [
    (dn, "load_urdf", "use dn.load_robot"), (dn, "buildModelFromUrdf", "use dn.load_robot"),
    (dn, "with_payloads", "did you mean with_payload"), (robot_of("panda7"), "joint_name", "did you mean joint_names"),
    (robot_of("panda7"), "nqq", "nq"), (dn, "zzzz", "'zzzz'$"), (robot_of("panda7"), "zzzz", "'zzzz'$"),
])  # fmt: skip
def test_attributes_lead_to_similar_ones(owner, name, hint):
    with pytest.raises(AttributeError, match=hint):
        getattr(owner, name)


def test_a_robot_keeps_the_protocols_of_python():
    robot = robot_of("panda7")
    assert not hasattr(robot, "__array__") and not hasattr(robot, "_repr_png_")
    assert pickle.loads(pickle.dumps(robot)).q_names == robot.q_names
    assert pickle.loads(pickle.dumps(dn.capability)) is dn.capability


def test_a_problem_is_not_a_result():
    robot = robot_of("panda7")
    assert not callable(robot) and not callable(dn.inverse_dynamics(robot))
    with pytest.raises(TypeError, match=r"returns a Problem: use dn.evaluate\(robot, 'inverse_dynamics', "):
        dn.inverse_dynamics(robot, Q, V, V)


def test_a_function_knows_its_robot():
    with pytest.raises(dn.InputError, match="q is a Robot.*leave it out"):
        function()(robot_of("panda7"), Q, V, V)


def taking(kind):
    """Public functions by the name of an argument of a kind."""
    for name in dn.__all__:
        thing = getattr(dn, name)
        if inspect.isfunction(thing):
            for argument, parameter in inspect.signature(thing).parameters.items():
                words = getattr(parameter.annotation, "__name__", str(parameter.annotation))
                if kind in words.split(" | ") and parameter.kind is parameter.POSITIONAL_OR_KEYWORD:
                    yield name, argument


@pytest.mark.parametrize("name, argument", list(taking("Robot")))
def test_a_path_where_a_robot_belongs(name, argument):
    others = {"first": "second", "second": "first"}
    known = {others[argument]: robot_of("panda7")} if argument in others else {}
    with pytest.raises(TypeError, match=rf"{argument} must be a Robot, not str: .*"):
        getattr(dn, name)(**known, **{argument: "arm.urdf"}, **_required(name, {argument, *known}))


def _required(name, given):
    parameters = inspect.signature(getattr(dn, name)).parameters.values()
    plain = [p for p in parameters if p.kind not in (p.VAR_POSITIONAL, p.VAR_KEYWORD)]
    return {p.name: None for p in plain if p.default is p.empty and p.name not in given}


@pytest.mark.parametrize("name, argument", list(taking("pathlib.Path")))
def test_a_robot_where_a_path_belongs(name, argument):
    with pytest.raises(TypeError, match=f"{argument} must be a path, not a Robot"):
        getattr(dn, name)(**{argument: robot_of("panda7")}, **_required(name, {argument}))


def test_the_robot_comes_first():
    with pytest.raises(
        TypeError, match=r"robot must be a Robot, not str: it comes first, build\(robot, ...\)"
    ):
        dn.build("mass_matrix", robot_of("panda7"))
    with pytest.raises(dn.ModelError, match="use load_robot"):
        dn.parse_robot("arm.urdf")
    with pytest.raises(dn.ModelError, match="use parse_robot"):
        dn.load_robot(CART)


def test_errors_from_inside_are_not_changed():
    @explains_wrong_calls
    def outer(link):
        return inner(frame=link)

    def inner(link):
        return link

    with pytest.raises(TypeError, match="inner.*unexpected keyword argument 'frame'"):
        outer(1)
    with pytest.raises(TypeError, match="missing 1 required positional argument: 'link'"):
        outer()


@pytest.mark.parametrize(
    "here, name", [("body", "LOCAL"), ("world", "WORLD"), ("world_aligned", "LOCAL_WORLD_ALIGNED")]
)
def test_reference_frames_of_pinocchio(here, name):
    """As the enumeration, its name and the name here; also Pinocchio's own, where it is installed."""
    forms = [name, name.lower(), ReferenceFrame[name]]
    try:
        import pinocchio
    except ImportError:
        pass
    else:
        forms.append(getattr(pinocchio, name))
    expected = evaluate("frame_jacobian", Q, link=HAND, reference=here)
    for form in forms:
        assert np.array_equal(evaluate("frame_jacobian", Q, link=HAND, reference=form), expected)
    if here != "world":
        axes = dn.manipulability(
            robot_of("panda7"), HAND, Q, reference=here, backend="numpy"
        ).ellipsoid.directions
        for form in forms:
            found = dn.manipulability(robot_of("panda7"), HAND, Q, reference=form, backend="numpy")
            assert np.array_equal(found.ellipsoid.directions, axes)


def test_an_unknown_reference_lists_the_known_ones():
    for unknown in (ReferenceFrame.ELSEWHERE, "sideways", 3):
        with pytest.raises(dn.InputError, match="unknown reference.*world_aligned, body, world .*LOCAL"):
            evaluate("frame_jacobian", Q, link=HAND, reference=unknown)


def test_every_quantity_leads_from_an_attribute():
    robot = robot_of("panda7")
    own = {name for name in QUANTITY_NAMES if hasattr(type(robot), name)}
    assert own == set(), "an attribute of Robot has the name of a quantity"
