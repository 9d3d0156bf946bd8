"""Robots in MJCF: an arm with all kinds of joints, linkages, a leg robot of the shape of Cassie, tendons."""

INERTIAL = '<inertial mass="{}" pos=".02 -.01 .1" fullinertia=".03 .02 .025 .001 -.002 .003"/>'
ARM = f"""
<mujoco model="arm">
  <compiler angle="degree"/>
  <option gravity="0 1 -9.7"/>
  <default><joint armature=".01" damping=".2" frictionloss=".1"/></default>
  <worldbody>
    <body name="base" pos="0 0 .3" euler="10 20 30">
      {INERTIAL.format(3)}
      <body name="shoulder" pos=".1 0 .2" quat=".9 .1 .2 .3">
        <joint name="yaw" axis="0 0 1" pos=".01 .02 .03" range="-90 90" actuatorfrcrange="-40 30"/>
        <joint name="pitch" axis="0 1 .2" pos="0 0 .05" ref="30"/>
        <joint name="reach" type="slide" axis="1 0 0" ref=".1" stiffness="100" springref=".2"/>
        {INERTIAL.format(2)}
        <site name="mount" pos="0 .1 0" euler="0 0 90"/>
        <body pos="0 0 .4"> <joint type="ball" pos="0 0 -.1"/> {INERTIAL.format(1)} </body>
        <body name="thing" pos="0 0 .4"> {INERTIAL.format(0.5)} </body>
      </body>
    </body>
    <body name="floats" pos="1 1 1">
      <freejoint name="free"/> {INERTIAL.format(2)}
      <body name="leg"> <joint name="knee" axis="0 1 0"/> {INERTIAL.format(1)} </body>
    </body>
  </worldbody>
  <actuator> <motor joint="knee" gear="50" ctrlrange="-2 1"/> <motor joint="knee" gear="2" forcerange="-3 3"/> </actuator>
</mujoco>"""
BAR = '<geom type="capsule" size=".02" fromto="0 0 0 {} 0 0"/>'
FOUR_BAR = f"""
<mujoco model="four bar">
  <worldbody>
    <body name="crank"> <joint name="crank" axis="0 0 1"/> {BAR.format(0.2)}
      <body name="coupler" pos=".2 0 0"> <joint name="coupler" axis="0 0 1"/> {BAR.format(0.5)} </body>
    </body>
    <body name="rocker" pos=".5 0 0"> <joint name="rocker" axis="0 0 1"/> {BAR.format(0.4)} </body>
    <body name="second" pos="0 1 0"> <joint name="follower" axis="0 0 1" ref=".3"/> {BAR.format(0.3)} </body>
  </worldbody>
  <equality>
    <connect name="pin" body1="coupler" body2="rocker" anchor=".5 0 0"/>
    <joint name="gear" joint1="follower" joint2="crank" polycoef=".1 -2 0 0 0"/>
  </equality>
</mujoco>"""
WELDED = """
<mujoco>
  <worldbody>
    <body name="a" pos="0 0 1"> <joint name="a" axis="0 1 0"/> <geom size=".1" mass="1"/>
      <body name="b" pos=".3 0 0" euler="0 30 0"> <joint name="b" axis="0 1 0"/> <geom size=".1" mass="1"/>
        <body name="c" pos=".2 0 0"> <joint name="c" axis="0 1 0" ref="20"/> <geom size=".1" mass="2"/> </body>
      </body>
    </body>
    <body name="d" pos=".6 0 1"> <joint name="d1" type="slide" axis="1 0 0"/> <joint name="d2" type="slide" axis="0 0 1"/>
      <joint name="d3" axis="0 1 0"/> <geom size=".2" mass="3"/> </body>
  </worldbody>
  <equality> <weld name="grip" body1="c" body2="d"/> </equality>
</mujoco>"""
LEG = """
<body name="{0}hip" pos="0 {1} 0"> <joint name="{0}hip" axis="0 1 0" armature=".03"/> <geom size=".05" mass="2"/>
  <body name="{0}thigh" pos="0 0 -.3"> <joint name="{0}knee" axis="0 1 0" ref="-50"/> <geom size=".05" mass="1"/>
    <body name="{0}shin" pos="0 0 -.3">
      <joint name="{0}shin" axis="0 1 0" stiffness="1500" springref="5"/> <geom size=".04" mass=".5"/>
      <body name="{0}tarsus" pos=".1 0 -.1" euler="0 40 0"> <joint name="{0}tarsus" axis="0 1 0"/> <geom size=".04" mass=".6"/>
        <body name="{0}crank" pos=".1 0 -.1"> <joint name="{0}crank" axis="0 1 0"/> <geom size=".03" mass=".2"/>
          <body name="{0}plantar" pos=".05 .02 0"> <joint name="{0}plantar" type="ball"/>
            <geom type="capsule" size=".01" fromto="0 0 0 .3 0 0" mass=".1"/> </body> </body>
        <body name="{0}foot" pos=".4 0 -.1"> <joint name="{0}foot" axis="0 1 0"/> <geom size=".04" mass=".3"/> </body>
      </body>
    </body>
  </body>
  <body name="{0}rod" pos="0 .05 -.05"> <joint name="{0}rod" type="ball"/>
    <geom type="capsule" size=".01" fromto="0 0 0 .2 0 -.6" mass=".2"/> </body>
</body>"""
CASSIE = f"""
<mujoco>
  <worldbody>
    <body name="pelvis" pos="0 0 1"> <freejoint name="base"/> <geom size=".15" mass="10"/>
      {LEG.format("left_", ".1")} {LEG.format("right_", "-.1")}
    </body>
  </worldbody>
  <equality>
    <connect body1="left_plantar" body2="left_foot" anchor=".3 0 0"/>
    <connect body1="left_rod" body2="left_tarsus" anchor=".2 0 -.6"/>
    <connect body1="right_plantar" body2="right_foot" anchor=".3 0 0"/>
    <connect body1="right_rod" body2="right_tarsus" anchor=".2 0 -.6"/>
  </equality>
</mujoco>"""
FINGERS = f"""
<mujoco>
  <worldbody>
    <body name="a"> <joint name="a" axis="0 1 0" ref="20"/> {INERTIAL.format(1)}
      <body name="b" pos="0 0 .2"> <joint name="b" axis="1 .2 0"/> {INERTIAL.format(2)}
        <body name="c" pos="0 0 .2"> <joint name="c" type="slide" axis="1 0 0"/> {INERTIAL.format(1)} </body>
      </body>
    </body>
    <body name="d" pos="0 1 0"> <joint name="d" axis="0 0 1"/> {INERTIAL.format(1)} </body>
    <body name="e" pos="0 2 0"> <joint name="e" axis="1 0 0" ref="-10"/> {INERTIAL.format(1)} </body>
  </worldbody>
  <tendon>
    <fixed name="both" armature=".2" damping=".3" frictionloss=".1" stiffness="4" springlength=".05">
      <joint joint="a" coef=".5"/> <joint joint="b" coef="-.7"/> </fixed>
    <fixed name="one"> <joint joint="d" coef="-2"/> </fixed>
    <fixed name="sum"> <joint joint="c" coef="1"/> <joint joint="d" coef=".3"/> </fixed>
    <fixed name="last"> <joint joint="e" coef="2"/> </fixed>
  </tendon>
  <equality> <tendon name="gear" tendon1="sum" tendon2="last" polycoef=".1 -.4 0 0 0"/> </equality>
  <actuator>
    <motor name="float32" tendon="one" gear="3" forcerange="-5 4"/>
    <motor name="float64" tendon="both" gear="10" ctrlrange="-1 1"/>
    <motor joint="b" gear="2" forcerange="-3 3"/>
  </actuator>
</mujoco>"""
TEXTS = {"arm": ARM, "four bar": FOUR_BAR, "welded": WELDED, "cassie": CASSIE, "fingers": FINGERS}

PENDULUM = """
<robot name="pendulum" xmlns:xacro="http://www.ros.org/wiki/xacro">
  <xacro:arg name="mass" default="2"/>
  <link name="world"/>
  <joint name="hinge" type="continuous"> <parent link="world"/> <child link="rod"/> <axis xyz="0 1 0"/> </joint>
  <link name="rod"> <inertial> <origin xyz="0 0 ${-1/2}"/> <mass value="$(arg mass)"/>
    <inertia ixx=".1" iyy=".1" izz=".1" ixy="0" ixz="0" iyz="0"/> </inertial> </link>
</robot>"""
