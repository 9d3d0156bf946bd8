"""An arm whose motors move several joints each: a differential wrist, and a linkage that skips a joint."""

JOINTS = (
    ("base", "0 0 1"),
    ("shoulder", "0 1 0"),
    ("elbow", "0 1 0"),
    ("roll", "1 0 0"),
    ("pitch", "0 1 .2"),
)


def coupled_motors() -> str:
    """The text: five joints in a row, and a sixth one that branches off."""
    links, parent = ['<link name="world"/>'], "world"
    for k, (name, axis) in enumerate((*JOINTS, ("side", "0 1 0"))):
        parent = "elbow_link" if name == "side" else parent
        links.append(
            f'<joint name="{name}" type="continuous"><parent link="{parent}"/><child link="{name}_link"/>'
            f'<origin xyz="0.02 -0.03 0.3" rpy="0.1 0 {0.2 * k}"/><axis xyz="{axis}"/></joint>'
            f'<link name="{name}_link"><inertial><origin xyz="0.02 0.01 0.1"/><mass value="{3 - 0.4 * k}"/>'
            '<inertia ixx="0.03" iyy="0.02" izz="0.025" ixy="0.001" ixz="0" iyz="0.002"/></inertial></link>'
        )
        parent = f"{name}_link"
    linkage = _transmission("FourBarLinkage", ("shoulder", "side"), (60, 60), (1e-4, 2e-4))
    wrist = _transmission("Differential", ("roll", "pitch"), (50, -40), (1e-4, 5e-5))
    return f'<robot name="coupled">{"".join(links)}{linkage}{wrist}</robot>'


def _transmission(kind, joints, reductions, rotors):
    sides = "".join(f'<joint name="{name}"/>' for name in joints)
    for name, reduction, rotor in zip(joints, reductions, rotors, strict=True):
        sides += (
            f'<actuator name="{name}_motor"><mechanicalReduction>{reduction}</mechanicalReduction>'
            f"<motorInertia>{rotor}</motorInertia></actuator>"
        )
    return (
        f'<transmission name="{kind}"><type>transmission_interface/{kind}Transmission</type>'
        f"{sides}</transmission>"
    )
