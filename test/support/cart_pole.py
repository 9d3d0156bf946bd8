"""A pole on a cart: a prismatic joint with friction and a revolute one, both with all limits."""

CART = """
<robot name="cart_pole"><link name="rail"/>
<link name="cart"><inertial><origin xyz="0.1 0 0.05"/><mass value="3"/>
<inertia ixx="0.02" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.04"/></inertial></link>
<link name="pole"><inertial><origin xyz="0 0.02 0.4"/><mass value="0.5"/>
<inertia ixx="0.03" ixy="0" ixz="0" iyy="0.03" iyz="0" izz="0.002"/></inertial></link>
<joint name="slide" type="prismatic"><parent link="rail"/><child link="cart"/><axis xyz="1 0 0"/>
<limit lower="-0.8" upper="0.5" velocity="2" effort="60"/><dynamics damping="0.5" friction="2"/></joint>
<joint name="hinge" type="revolute"><parent link="cart"/><child link="pole"/><origin xyz="0 0 0.1"/>
<axis xyz="0 1 0"/><limit lower="-1" upper="2" velocity="4" effort="5"/></joint></robot>"""
