"""Property-based tests: any input gives a Robot or a ModelError of one line, and valid trees are read."""

import math

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

import dynamics_node as dn
from dynamics_node.errors import ModelError
from dynamics_node.robot import parse_robot

number = st.floats(-3, 3).map(lambda x: round(x, 6))
name = st.text("abcXYZ09_ <>&'\"/;$`{}é\u4e2d", min_size=1, max_size=12).filter(str.strip)


def escape(text):
    for raw, safe in (("&", "&amp;"), ("<", "&lt;"), (">", "&gt;"), ('"', "&quot;")):
        text = text.replace(raw, safe)
    return text


@st.composite
def trees(draw):
    """A random tree of 1 to 8 links with plausible inertias and hostile names."""
    names = draw(st.lists(name, min_size=1, max_size=8, unique_by=str.strip))
    names = [n.strip() for n in names]
    parts, kinds = [], []
    for k, link in enumerate(names):
        m = draw(st.floats(0.1, 5))
        parts.append(
            f'<link name="{escape(link)}"><inertial><mass value="{m}"/>'
            f'<inertia ixx="{m}" ixy="0" ixz="0" iyy="{m}" iyz="0" izz="{m}"/></inertial></link>'
        )
        if k:
            kind = draw(st.sampled_from(["revolute", "continuous", "prismatic", "fixed", "floating"]))
            axis = draw(st.tuples(number, number, number).filter(lambda a: math.hypot(*a) > 0.1))
            xyz, rpy = draw(st.tuples(number, number, number)), draw(st.tuples(number, number, number))
            parent = draw(st.integers(0, k - 1))
            kinds.append(kind)
            parts.append(
                f'<joint name="J{k}" type="{kind}"><parent link="{escape(names[parent])}"/>'
                f'<child link="{escape(link)}"/><origin xyz="{_list(xyz)}" rpy="{_list(rpy)}"/>'
                f'<axis xyz="{_list(axis)}"/><limit lower="-1" upper="1" effort="1" velocity="1"/></joint>'
            )
    order = draw(st.permutations(parts))
    return f"<robot name='r'>{''.join(order)}</robot>", names, kinds


def _list(values):
    return " ".join(map(repr, values))


@settings(max_examples=80, deadline=None)
@given(trees(), st.booleans())
def test_every_tree_is_read(tree, floating_base):
    text, names, kinds = tree
    model = parse_robot(text, floating_base=floating_base)
    assert set(model.frames) == set(names)
    dof = {"fixed": 0, "floating": 6}
    own = sum(dof.get(kind, 1) for kind in kinds)
    assert model.nv in (own, own + 6)
    assert all(parent < k for k, parent in enumerate(model.parents))
    if model.nv:
        M = dn.evaluate(model, "mass_matrix", model.neutral(), backend="numpy")
        assert np.linalg.eigvalsh(M).min() > 0
        assert np.isfinite(
            dn.evaluate(model, "nonlinear_effects", model.neutral(), np.zeros(model.nv), backend="numpy")
        ).all()


@settings(max_examples=150, deadline=None)
@given(trees(), st.data())
def test_damaged_text_gives_a_model_or_one_line(tree, data):
    text = tree[0]
    for _ in range(data.draw(st.integers(1, 4))):
        at = data.draw(st.integers(0, len(text)))
        end = min(len(text), at + data.draw(st.integers(0, 30)))
        text = text[:at] + data.draw(st.text(max_size=6)) + text[end:]
    _model_or_one_line(text)


@settings(max_examples=100, deadline=None)
@given(st.one_of(st.text(), st.binary()))
def test_noise_gives_one_line(noise):
    _model_or_one_line(noise)


values = st.sampled_from(
    ["nan", "inf", "-inf", "1e400", "-1", "0", "", "x", "1 2", "0 0 0 0", "1e-320", "\u0664"]
)


@settings(max_examples=150, deadline=None)
@given(trees(), values, st.data())
def test_hostile_values_give_a_model_or_one_line(tree, value, data):
    pieces = tree[0].split('="')
    if len(pieces) < 2:
        return
    at = data.draw(st.integers(1, len(pieces) - 1))
    pieces[at] = value + pieces[at][pieces[at].index('"') :] if '"' in pieces[at] else pieces[at]
    _model_or_one_line('="'.join(pieces))


def _model_or_one_line(text):
    try:
        model = parse_robot(text)
    except ModelError as error:
        assert str(error) and "\n" not in str(error)
    else:
        assert np.isfinite(model.inertias).all()
        if model.nv:
            assert np.isfinite(dn.evaluate(model, "mass_matrix", model.neutral(), backend="numpy")).all()
