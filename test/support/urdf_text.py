"""Links and joints of plain URDF as text, with arbitrary inertia and geometry."""

INERTIAL = """<inertial><origin xyz="0 0 0.1"/><mass value="1"/>
<inertia ixx="0.01" ixy="0" ixz="0" iyy="0.01" iyz="0" izz="0.01"/></inertial>"""


def link(name, inertial=INERTIAL):
    return f'<link name="{name}">{inertial}</link>'


def joint(name, parent, child, kind="revolute", extra='<axis xyz="0 0 1"/>'):
    return (
        f'<joint name="{name}" type="{kind}"><parent link="{parent}"/><child link="{child}"/>'
        f'<origin xyz="0 0 0.3"/><limit lower="-1" upper="1" effort="10" velocity="2"/>{extra}</joint>'
    )


def robot(*parts):
    return f'<robot name="r">{"".join(parts)}</robot>'
