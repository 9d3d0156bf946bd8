// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
// The control law of DynamicsFeedforward on arrays, without ROS.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <vector>

#include "dynamics_controllers/exported_function.hpp"
#include "dynamics_controllers/loop_closure.hpp"

namespace dynamics_controllers
{
enum class Law
{
  effort,           // reference torques + gravity and Coriolis torques at the measured state
  feedforward,      // inverse dynamics at the reference + p (position error) + d (velocity error)
  computed_torque,  // inverse dynamics at the measured state, for the acceleration reference
                    // + p (position error) + d (velocity error)
};

/// Of one joint, in rad and N m or in m and N.
struct JointSettings
{
  double p, d;               // gains at first; of computed torque: 1/s^2 and 1/s
  double armature;           // rotor inertia at the joint
  double viscous, coulomb;   // friction
  double effort_limit;       // of the sum of all torques; infinity: none
  bool continuous;           // position errors are the shorter way round
};

struct FeedforwardSettings
{
  Law law;
  bool gravity;      // false: the drives compensate gravity
  bool friction;     // true: friction torques are added
  double hold_time;  // s
  std::vector<JointSettings> joints;
};

/// Values for each joint; NaN: no reference. The law `effort` reads efforts, the others the rest.
struct Reference
{
  const double * effort, * position, * velocity, * acceleration;
};

enum class Status
{
  ok,
  holding,  // the state is invalid: the torques are those of gravity at the last valid state
  failed,   // the state is invalid for longer than hold_time, or was never valid
};

/// A vector that one thread writes and another one reads. Neither waits.
class LatestVector
{
public:
  /// Not while another thread uses it.
  void reset(const std::vector<double> & values) { slots_.fill(values); }
  void write(const std::vector<double> & values)
  {
    slots_[back_] = values;
    back_ = middle_.exchange(back_ | fresh, std::memory_order_acq_rel) & ~fresh;
  }
  const std::vector<double> & read() noexcept
  {
    if (middle_.load(std::memory_order_relaxed) & fresh) {
      front_ = middle_.exchange(front_, std::memory_order_acq_rel) & ~fresh;
    }
    return slots_[front_];
  }

private:
  static constexpr std::size_t fresh = 4;
  std::array<std::vector<double>, 3> slots_;
  std::size_t front_ = 0, back_ = 1;
  std::atomic<std::size_t> middle_{2};
};

/// Torques of all joints, once a cycle. Not copyable: the function reads the arrays of the object.
class FeedforwardLaw
{
public:
  /// Throws std::runtime_error for a function of another kind, std::invalid_argument for impossible settings.
  void configure(const ExportedFunction & inverse_dynamics, const FeedforwardSettings & settings);

  /// Forget the last valid state.
  void reset() noexcept;

  /// Write torques tau (n) at the measured q, qd (n), unless failed; period: s. Neither allocates nor waits.
  Status update(
    const double * q, const double * qd, const Reference & reference, double period, double * tau) noexcept;

  /// Write the gravity torques of the last valid state; false without one.
  bool hold(double * tau) noexcept;

  /// Inertial parameters of all bodies from the next update on; of another thread.
  void set_inertia(const std::vector<double> & inertia) { inertia_.write(inertia); }

  /// Gains of all joints, p and d of each (2 n), from the next update on; of another thread. Throws
  /// std::invalid_argument, naming the joint.
  void set_gains(const std::vector<double> & gains);

  const ExportedFunction & function() const { return function_; }

  // Counted since `configure`, and the last joints; read by other threads
  std::atomic<unsigned long> invalid_states{0}, limited_torques{0};
  std::atomic<std::size_t> invalid_joint{0}, limited_joint{0};  // invalid: n if all states are finite

private:
  bool track(const double * q, const double * qd, const Reference & reference) noexcept;
  bool model(const double * qd, const double * qdd) noexcept;
  void write_limited(double * tau) noexcept;

  ExportedFunction function_;
  LoopClosure closure_;
  FeedforwardSettings settings_;
  LatestVector inertia_, gains_;
  std::size_t qd_input_ = 0, qdd_input_ = 0, inertia_input_ = 0, tau_output_ = 0;
  std::vector<double> valid_q_, q_, qd_, qdd_, tau_, zeros_, feedback_, gravity_;
  std::vector<double> slip_;  // velocities that friction opposes
  bool has_state_ = false;
  double invalid_for_ = 0.0;
};

/// The first joint whose position or velocity is not finite; n if there is none.
std::size_t first_invalid(const double * q, const double * qd, std::size_t n) noexcept;

/// Torque against friction at a velocity, in rad/s or m/s; Coulomb friction is smooth below 0.01.
double friction(double velocity, double viscous, double coulomb) noexcept;
}  // namespace dynamics_controllers
