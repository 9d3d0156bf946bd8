// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
// The inverse dynamics of a robot description, from a library or by the command `dynamics`. Without ROS.
#pragma once

#include <chrono>
#include <string>
#include <vector>

#include "dynamics_controllers/exported_function.hpp"

namespace dynamics_controllers
{
/// Export, compile and load the inverse dynamics of a description for these joints, with its inertial
/// parameters as an input. command: path of the executable `dynamics`. Throws std::runtime_error with its
/// last line of output.
ExportedFunction export_inverse_dynamics(
  const std::string & command, const std::string & description, const std::vector<std::string> & joints,
  std::chrono::milliseconds timeout = std::chrono::minutes(2));

/// Throws std::runtime_error, naming the joint, unless the function moves these joints, in any order.
void require_joints(const ExportedFunction & function, const std::vector<std::string> & joints);

/// Throws std::runtime_error, naming both hashes, unless the function is of the description with this SHA-256.
void require_description(const ExportedFunction & function, const std::string & hash);

/// A payload in another frame, where its own frame is at `position` with the axes `rotation` (row-major).
/// Throws std::invalid_argument unless a body can have its mass and moments.
Payload moved(
  const Payload & payload, const std::array<double, 9> & rotation, const std::array<double, 3> & position);
}  // namespace dynamics_controllers
