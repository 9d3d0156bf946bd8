// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
#include "dynamics_controllers/description.hpp"

#include <algorithm>
#include <stdexcept>

#include "ament_index_cpp/get_package_prefix.hpp"
#include "dynamics_controllers/robot_function.hpp"
#include "rcutils/sha256.h"

namespace dynamics_controllers
{
namespace
{
std::string sha256(const std::string & text)
{
  rcutils_sha256_ctx_t context;
  std::uint8_t digest[RCUTILS_SHA256_BLOCK_SIZE];
  rcutils_sha256_init(&context);
  rcutils_sha256_update(&context, reinterpret_cast<const std::uint8_t *>(text.data()), text.size());
  rcutils_sha256_final(&context, digest);
  std::string hexadecimal;
  for (const std::uint8_t byte : digest) {
    hexadecimal += "0123456789abcdef"[byte >> 4];
    hexadecimal += "0123456789abcdef"[byte & 15];
  }
  return hexadecimal;
}
}  // namespace

ExportedFunction load_inverse_dynamics(
  const std::string & library, const std::vector<std::string> & joints, const std::string & description)
{
  const auto function =
    library.empty()
      ? export_inverse_dynamics(
          ament_index_cpp::get_package_prefix("dynamics_node") + "/lib/dynamics_node/dynamics", description, joints)
      : ExportedFunction(library, "inverse_dynamics");
  require_joints(function, joints);
  const std::string printed = sha256(description + "\n");  // of `ros2 param get ... > arm.urdf`
  require_description(function, function.urdf_hash() == printed ? printed : sha256(description));
  return function;
}

Place find_body(const urdf::Model & model, const std::string & link, const std::vector<std::string> & bodies)
{
  auto current = model.getLink(link);
  if (!current) { throw std::runtime_error("link " + in_quotes(link) + " is not in robot_description"); }
  urdf::Rotation rotation;  // of the link in `current`
  urdf::Vector3 position;
  for (;;) {
    const auto body = std::find(bodies.begin(), bodies.end(), current->name);
    if (body != bodies.end()) {
      const urdf::Vector3 x = rotation * urdf::Vector3(1, 0, 0), y = rotation * urdf::Vector3(0, 1, 0),
                          z = rotation * urdf::Vector3(0, 0, 1);
      return {
        static_cast<std::size_t>(body - bodies.begin()),
        {x.x, y.x, z.x, x.y, y.y, z.y, x.z, y.z, z.z},
        {position.x, position.y, position.z}};
    }
    if (!current->parent_joint) {
      throw std::runtime_error("link " + in_quotes(link) + " is fixed to the root: a payload has no effect");
    }
    const auto & pose = current->parent_joint->parent_to_joint_origin_transform;
    position = pose.rotation * position + pose.position;
    rotation = pose.rotation * rotation;
    current = current->getParent();
  }
}
}  // namespace dynamics_controllers
