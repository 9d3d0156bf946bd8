// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
// Positions of all joints of a robot with closed loops, from those of the independent joints. Without ROS.
#pragma once

#include <cstddef>
#include <vector>

#include "dynamics_controllers/exported_function.hpp"

namespace dynamics_controllers
{
/// Closes loops by Newton's method, from the last closed position. Without loops it passes positions on.
/// The step reads the vectors of the object, so it can be moved and not copied.
class LoopClosure
{
public:
  LoopClosure() = default;
  LoopClosure(const LoopClosure &) = delete;
  LoopClosure(LoopClosure &&) = default;
  LoopClosure & operator=(LoopClosure &&) = default;

  /// The loops of a function, by `<prefix>_loop_step` of its library. Throws std::runtime_error.
  explicit LoopClosure(const ExportedFunction & function);

  /// Start again from the closed position of the library.
  void reset() noexcept { is_new_ = true; }

  /// Close the loops at positions (n) of the joints of the function, in bounded time; false if that fails.
  bool close(const double * joints) noexcept;

  /// The input q of the function after a success.
  const std::vector<double> & positions() const { return positions_; }

private:
  bool move(const double * joints, double share) noexcept;

  std::vector<std::size_t> places_;  // of the joints in positions_
  std::vector<double> start_;        // empty without loops
  std::vector<double> positions_, q_, following_;
  std::vector<double> health_;       // of q_: the squared condition of the constraints, and the squared gap
  ExportedFunction step_;
  bool is_new_ = true;
};
}  // namespace dynamics_controllers
