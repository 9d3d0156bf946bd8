// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
// The function of a robot_description, and links in it.
#pragma once

#include <array>
#include <string>
#include <vector>

#include "dynamics_controllers/exported_function.hpp"
#include "urdf/model.h"

namespace dynamics_controllers
{
/// The inverse dynamics of a description: of a library, or exported if its path is empty. Throws
/// std::runtime_error unless joints and description are those of the library.
ExportedFunction load_inverse_dynamics(
  const std::string & library, const std::vector<std::string> & joints, const std::string & description);

/// A body, and the pose of a link in its frame; rotation row-major.
struct Place
{
  std::size_t body;
  std::array<double, 9> rotation;
  std::array<double, 3> position;
};

/// The body that a link belongs to; other joints on the way are at zero. Throws std::runtime_error for an
/// unknown link, and for one that is fixed to the root.
Place find_body(const urdf::Model & model, const std::string & link, const std::vector<std::string> & bodies);
}  // namespace dynamics_controllers
