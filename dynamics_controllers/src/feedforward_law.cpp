// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
#include "dynamics_controllers/feedforward_law.hpp"

#include <algorithm>
#include <cmath>
#include <stdexcept>

namespace dynamics_controllers
{
namespace
{
constexpr double pi = 3.14159265358979323846;

bool are_finite(const double * values, std::size_t count)
{
  return std::all_of(values, values + count, [](double value) { return std::isfinite(value); });
}

double finite_or_zero(double value) { return std::isfinite(value) ? value : 0.0; }

void require(bool is_possible, const std::string & joint, const char * what)
{
  if (!is_possible) { throw std::invalid_argument("joint " + in_quotes(joint) + ": " + what); }
}

bool are_finite_and_not_negative(const double * values, std::size_t count)
{
  return are_finite(values, count) && std::all_of(values, values + count, [](double value) { return value >= 0; });
}

void require_gains(const std::vector<double> & gains, const std::vector<std::string> & joints)
{
  if (gains.size() != 2 * joints.size()) {
    throw std::invalid_argument(
      std::to_string(gains.size()) + " gains, and " + std::to_string(joints.size()) + " joints have two each");
  }
  for (std::size_t i = 0; i < joints.size(); ++i) {
    require(are_finite_and_not_negative(&gains[2 * i], 2), joints[i], "gains must be finite and not negative");
  }
}

/// Throws std::runtime_error unless the law sets all inputs: the function would read others as zero.
void require_known_inputs(const ExportedFunction & function)
{
  const std::size_t n = function.joints().size();
  for (const auto & [name, size] : function.inputs()) {
    if (name == "q" && size > n && function.positions().empty()) {
      throw std::runtime_error(
        function.name() + " has " + std::to_string(size) + " positions for " + std::to_string(n) +
        " joints; ball joints and floating bases need the node");
    }
    if (name != "q" && name != "qd" && name != "qdd" && name != "inertia") {
      throw std::runtime_error(
        function.name() + " has the input " + in_quotes(name) +
        ", which the controller does not set; export it with --runtime-parameters inertia alone");
    }
  }
}
}  // namespace

void FeedforwardLaw::configure(const ExportedFunction & inverse_dynamics, const FeedforwardSettings & settings)
{
  ExportedFunction function = inverse_dynamics;
  const std::size_t n = function.joints().size();
  if (settings.joints.size() != n) {
    throw std::invalid_argument(
      std::to_string(settings.joints.size()) + " joints have settings, and " + function.name() + " has " +
      std::to_string(n));
  }
  require_known_inputs(function);
  std::vector<double> gains;
  for (std::size_t i = 0; i < n; ++i) {
    const auto & [p, d, armature, viscous, coulomb, effort_limit, continuous] = settings.joints[i];
    const double values[] = {armature, viscous, coulomb};
    const auto & joint = function.joints()[i];
    require(are_finite_and_not_negative(values, 3), joint, "armature and friction must be finite and not negative");
    gains.insert(gains.end(), {p, d});
    require(effort_limit > 0, joint, "the effort limit must be positive; set effort_limit, or infinity for none");
  }
  require_gains(gains, function.joints());
  LoopClosure closure(function);
  if (!(settings.hold_time >= 0)) { throw std::invalid_argument("hold_time must not be negative"); }

  for (auto * vector :
       {&valid_q_, &q_, &qd_, &qdd_, &tau_, &zeros_, &slip_, &feedback_, &gravity_}) {
    vector->assign(n, 0.0);
  }
  closure_ = std::move(closure);
  function.read(function.input("q", closure_.positions().size()), closure_.positions().data());
  qd_input_ = function.input("qd", n);
  qdd_input_ = function.input("qdd", n);
  tau_output_ = function.output("tau", n);
  inertia_.reset(function.inertia());
  if (!function.inertia().empty()) { inertia_input_ = function.input("inertia", function.inertia().size()); }
  function_ = std::move(function);
  gains_.reset(gains);
  settings_ = settings;
  invalid_states = limited_torques = 0;
  reset();
}

void FeedforwardLaw::set_gains(const std::vector<double> & gains)
{
  require_gains(gains, function_.joints());
  gains_.write(gains);
}

void FeedforwardLaw::reset() noexcept
{
  has_state_ = false;
  invalid_for_ = 0.0;
  closure_.reset();
}

Status FeedforwardLaw::update(
  const double * q, const double * qd, const Reference & reference, double period, double * tau) noexcept
{
  const std::size_t n = settings_.joints.size();
  if (!function_.inertia().empty()) { function_.read(inertia_input_, inertia_.read().data()); }
  if (are_finite(q, n) && are_finite(qd, n) && track(q, qd, reference)) {
    std::copy(q, q + n, valid_q_.begin());
    has_state_ = true;
    invalid_for_ = 0.0;
    write_limited(tau);
    return Status::ok;
  }
  invalid_joint = first_invalid(q, qd, n);
  ++invalid_states;
  invalid_for_ += std::max(finite_or_zero(period), 0.0);
  return invalid_for_ <= settings_.hold_time && hold(tau) ? Status::holding : Status::failed;
}

bool FeedforwardLaw::hold(double * tau) noexcept
{
  if (!has_state_) { return false; }
  q_ = valid_q_;
  if (!model(zeros_.data(), zeros_.data()) || !are_finite(tau_.data(), tau_.size())) { return false; }
  write_limited(tau);
  return true;
}

void FeedforwardLaw::write_limited(double * tau) noexcept
{
  for (std::size_t i = 0; i < tau_.size(); ++i) {
    const double most = settings_.joints[i].effort_limit;
    tau[i] = std::clamp(tau_[i], -most, most);
    if (tau[i] != tau_[i]) {
      ++limited_torques;
      limited_joint = i;
    }
  }
}

/// Compute tau_; false if it is not finite.
bool FeedforwardLaw::track(const double * q, const double * qd, const Reference & reference) noexcept
{
  const std::size_t n = settings_.joints.size();
  const bool is_computed = settings_.law == Law::computed_torque;
  const double * const gains = gains_.read().data();
  for (std::size_t i = 0; i < n; ++i) {
    const auto & joint = settings_.joints[i];
    q_[i] = q[i];
    qd_[i] = qd[i];
    if (settings_.law == Law::effort) {
      qdd_[i] = 0.0;
      slip_[i] = qd[i];
      feedback_[i] = finite_or_zero(reference.effort[i]);
      continue;
    }
    const bool has_reference = std::isfinite(reference.position[i]);  // else the joint is braked by d
    double error = has_reference ? reference.position[i] - q[i] : 0.0;
    if (joint.continuous) { error = std::remainder(error, 2 * pi); }
    slip_[i] = has_reference ? finite_or_zero(reference.velocity[i]) : 0.0;
    const double correction = gains[2 * i] * error + gains[2 * i + 1] * (slip_[i] - qd[i]);
    qdd_[i] = (has_reference ? finite_or_zero(reference.acceleration[i]) : 0.0) + (is_computed ? correction : 0.0);
    feedback_[i] = is_computed ? 0.0 : correction;
    if (has_reference && !is_computed) {
      q_[i] = reference.position[i];
      qd_[i] = slip_[i];
    }
  }
  if (!model(qd_.data(), qdd_.data())) { return false; }
  for (std::size_t i = 0; i < n; ++i) {
    const auto & joint = settings_.joints[i];
    tau_[i] += joint.armature * qdd_[i] + feedback_[i];
    if (settings_.friction) { tau_[i] += friction(slip_[i], joint.viscous, joint.coulomb); }
  }
  return are_finite(tau_.data(), n);
}

/// tau_ of the rigid bodies at q_; false at a singular position, and where loops do not close.
bool FeedforwardLaw::model(const double * qd, const double * qdd) noexcept
{
  if (!closure_.close(q_.data())) { return false; }
  function_.read(qd_input_, qd);
  function_.read(qdd_input_, qdd);
  function_.write(tau_output_, tau_.data());
  if (!function_()) { return false; }
  if (settings_.gravity) { return true; }
  function_.read(qd_input_, zeros_.data());
  function_.read(qdd_input_, zeros_.data());
  function_.write(tau_output_, gravity_.data());
  if (!function_()) { return false; }
  for (std::size_t i = 0; i < tau_.size(); ++i) { tau_[i] -= gravity_[i]; }
  return true;
}

std::size_t first_invalid(const double * q, const double * qd, std::size_t n) noexcept
{
  std::size_t i = 0;
  while (i < n && std::isfinite(q[i]) && std::isfinite(qd[i])) { ++i; }
  return i;
}

double friction(double velocity, double viscous, double coulomb) noexcept
{
  return viscous * velocity + coulomb * std::tanh(velocity / 0.01);
}
}  // namespace dynamics_controllers
