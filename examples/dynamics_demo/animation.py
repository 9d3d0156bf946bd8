"""What GIFs of the demos share: a renderer, the meshes of a robot, and the file."""

import os

import numpy as np

import dynamics_node as dn

FRAMES = 20.0  # per second, unless told otherwise
SIZE = 420  # pixels: height of a picture
WIDE = 440  # pixels: width of its curves
FINER = 2  # supersampling factor of the robot
LAST = 1500  # ms of the last frame
_NEEDS = (
    "--animate renders with MuJoCo offscreen: sudo apt install libegl1 libgl1-mesa-dri, "
    "or libosmesa6 and MUJOCO_GL=osmesa"
)


def opened(make):
    """The result of make(mujoco), which makes a renderer. Raises ImportError with the installation command if
    MuJoCo cannot render."""
    os.environ.setdefault("MUJOCO_GL", "egl")
    try:
        import mujoco

        return make(mujoco)
    except Exception as error:  # drivers raise various exceptions
        raise ImportError(f"{_NEEDS} ({error})") from None


def specification(mujoco, name, text, visual):
    """The MjSpec of a description of an example robot with its meshes, lit from above. visual: whether those
    of <visual> are kept; else those of <collision>."""
    folder = str(dn.example_robot_file(name).parents[2])
    text = text.replace("package://example-robot-data/robots", folder)
    text = text.replace(
        "gripper/base_link.STL", "gripper/base_link_collision.STL"
    )  # Talos: unique file names
    compiler = (
        '<mujoco><compiler balanceinertia="false" fusestatic="false" strippath="false" '
        f'discardvisual="{str(not visual).lower()}"/></mujoco>'
    )
    spec = mujoco.MjSpec.from_string(text.replace("<link", compiler + "<link", 1))
    sun = spec.worldbody.add_light(dir=[0.3, 0.4, -1], diffuse=[0.55] * 3, specular=[0.1] * 3)
    sun.type, sun.castshadow = mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, False
    light = spec.visual.headlight
    light.ambient, light.diffuse, light.specular = [0.4] * 3, [0.3] * 3, [0, 0, 0]
    spec.visual.global_.offwidth = spec.visual.global_.offheight = SIZE * FINER
    return spec


def coarser(picture):
    """(size, size, 3) bytes of a supersampled picture."""
    shape = len(picture) // FINER, FINER, len(picture) // FINER, FINER, 3
    return picture.reshape(shape).mean(axis=(1, 3)).round().astype(np.uint8)


def write_gif(pictures, path, frames=FRAMES, colors=256):
    """Write a looping GIF with one palette for all pictures. frames: per second."""
    from PIL import Image

    images = [Image.fromarray(picture) for picture in pictures]
    some = Image.fromarray(np.vstack(pictures[:: max(len(pictures) // 6, 1)]))
    frequent, rare = (
        some.quantize(colors // 2, method=m) for m in (Image.Quantize.MEDIANCUT, Image.Quantize.MAXCOVERAGE)
    )
    palette = Image.new("P", (1, 1))
    each = 3 * (colors // 2)
    palette.putpalette(frequent.getpalette()[:each] + rare.getpalette()[:each])
    flat = [image.quantize(palette=palette, dither=Image.Dither.NONE) for image in images]
    times = [round(1000 / frames)] * (len(flat) - 1) + [LAST]
    flat[0].save(path, save_all=True, append_images=flat[1:], duration=times, loop=0, optimize=True)
