// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
#include "dynamics_controllers/loop_closure.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dynamics_controllers
{
namespace
{
constexpr int most_steps = 8;          // of Newton's method; two or three suffice from the cycle before
constexpr int first_moves = 200;       // from the closed position of the library to the first one
constexpr double largest_gap = 1e-10;  // m or rad
constexpr double last_step = 1e-9;     // m or rad; near singular positions a small gap alone means little
constexpr double largest_step = 0.5;   // m or rad; beyond, another assembly may be nearer
}  // namespace

LoopClosure::LoopClosure(const ExportedFunction & function)
: start_(function.closed_position())
{
  const auto & names = function.positions();
  if (start_.empty()) {
    positions_.assign(function.joints().size(), 0.0);
    return;
  }
  for (const auto & joint : function.joints()) {
    const auto place = std::find(names.begin(), names.end(), joint);
    if (place == names.end()) {
      throw std::runtime_error(function.name() + " has no position of joint " + in_quotes(joint));
    }
    places_.push_back(static_cast<std::size_t>(place - names.begin()));
  }
  positions_ = q_ = following_ = start_;
  health_.assign(2, 0.0);
  step_ = ExportedFunction(function.path(), "loop_step");
  step_.read(step_.input("q", q_.size()), q_.data());
  step_.write(step_.output("following", following_.size()), following_.data());
  step_.write(step_.output("health", health_.size()), health_.data());
}

bool LoopClosure::close(const double * joints) noexcept
{
  if (start_.empty()) {
    std::copy(joints, joints + positions_.size(), positions_.begin());
    return true;
  }
  if (is_new_) {
    positions_ = start_;
    for (int k = 1; k < first_moves; ++k) {
      if (!move(joints, 1.0 / (first_moves - k + 1))) { return false; }
    }
  }
  if (!move(joints, 1.0)) { return false; }
  is_new_ = false;
  return true;
}

/// Move the joints by a share of their way to a position, and close the loops; false if that fails.
bool LoopClosure::move(const double * joints, double share) noexcept
{
  q_ = positions_;
  for (std::size_t i = 0; i < places_.size(); ++i) { q_[places_[i]] += share * (joints[i] - q_[places_[i]]); }
  for (int k = 0; k < most_steps; ++k) {
    if (!step_()) { return false; }
    double longest = 0.0;
    for (std::size_t i = 0; i < q_.size(); ++i) {
      const double step = std::abs(following_[i] - q_[i]);
      if (!(step <= largest_step)) { return false; }
      longest = std::max(longest, step);
    }
    q_ = following_;
    if (health_[1] < largest_gap * largest_gap && longest < last_step) {
      positions_ = q_;
      return true;
    }
  }
  return false;
}
}  // namespace dynamics_controllers
