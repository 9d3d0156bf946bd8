// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
// The plugin of https://github.com/unisa-acg/inverse-dynamics-solver.
#include "inverse_dynamics_solver/inverse_dynamics_solver.hpp"

#include <algorithm>
#include <cmath>
#include <optional>

#include "dynamics_controllers/description.hpp"
#include "dynamics_controllers/feedforward_law.hpp"
#include "inverse_dynamics_solver/exceptions.hpp"
#include "pluginlib/class_list_macros.hpp"

namespace dynamics_controllers
{
/// Vectors have the order of the parameter `joints`. Parameters: joints, library (as of DynamicsFeedforward),
/// and robot_description unless it is an argument.
class InverseDynamicsSolver : public inverse_dynamics_solver::InverseDynamicsSolver
{
public:
  using Parameters = rclcpp::node_interfaces::NodeParametersInterface::ConstSharedPtr;
  using Vector = Eigen::VectorXd;

  void initialize(Parameters parameters, const std::string & name_space, const std::string & description) override
  {
    const std::string prefix = name_space.empty() ? "" : name_space + ".";
    rclcpp::Parameter own("robot_description", description), joints, library(prefix + "library", "");
    if (description.empty() && !(parameters && parameters->get_parameter("robot_description", own))) {
      throw inverse_dynamics_solver::ParameterUninitializedException("robot_description");
    }
    if (!parameters || !parameters->get_parameter(prefix + "joints", joints)) {
      throw inverse_dynamics_solver::ParameterUninitializedException(prefix + "joints");
    }
    parameters->get_parameter(prefix + "library", library);
    joints_ = joints.as_string_array();
    model_.initString(own.as_string());
    function_ = load_inverse_dynamics(library.as_string(), joints_, own.as_string());
  }

  Vector getTorques(const Vector & q, const Vector & qd, const Vector & qdd) const override
  {
    require_sizes({q.size(), qd.size(), qdd.size()});
    const auto n = q.size();
    ExportedFunction function = *function_;  // its own work space: calls may overlap
    Vector state[3] = {q, qd, qdd}, tau(n);
    for (Eigen::Index i = 0; i < n; ++i) {
      const auto place = order(i);
      state[0][place] = q[i], state[1][place] = qd[i], state[2][place] = qdd[i];
    }
    const auto size = joints_.size();
    const char * const names[] = {"q", "qd", "qdd"};
    for (int k = 0; k < 3; ++k) { function.read(function.input(names[k], size), state[k].data()); }
    if (!function.inertia().empty()) {
      function.read(function.input("inertia", function.inertia().size()), function.inertia().data());
    }
    function.write(function.output("tau", size), tau.data());
    if (!function()) { return Vector::Constant(n, std::nan("")); }
    Vector ordered(n);
    for (Eigen::Index i = 0; i < n; ++i) { ordered[i] = tau[order(i)]; }
    return ordered;
  }

  Vector getGravityVector(const Vector & q) const override { return getTorques(q, zeros(q), zeros(q)); }

  Vector getCoriolisVector(const Vector & q, const Vector & qd) const override
  {
    return getTorques(q, qd, zeros(q)) - getGravityVector(q);
  }

  Eigen::MatrixXd getInertiaMatrix(const Vector & q) const override
  {
    Eigen::MatrixXd inertia(q.size(), q.size());
    const Vector gravity = getGravityVector(q);
    for (Eigen::Index k = 0; k < q.size(); ++k) {
      inertia.col(k) = getTorques(q, zeros(q), Vector::Unit(q.size(), k)) - gravity;
    }
    return inertia;
  }

  Vector getFrictionVector(const Vector & qd) const override
  {
    require_sizes({qd.size()});
    Vector tau = zeros(qd);
    for (Eigen::Index i = 0; i < qd.size(); ++i) {
      const auto joint = model_.getJoint(joints_.at(static_cast<std::size_t>(i)));
      if (joint && joint->dynamics) { tau[i] = friction(qd[i], joint->dynamics->damping, joint->dynamics->friction); }
    }
    return tau;
  }

private:
  void require_sizes(std::initializer_list<Eigen::Index> sizes) const
  {
    if (!function_) { throw inverse_dynamics_solver::UninitializedException(); }
    const auto n = static_cast<Eigen::Index>(joints_.size());
    if (std::any_of(sizes.begin(), sizes.end(), [n](Eigen::Index size) { return size != n; })) {
      throw std::invalid_argument(
        "positions, velocities and accelerations need " + std::to_string(n) + " numbers each");
    }
  }

  static Vector zeros(const Vector & like) { return Vector::Zero(like.size()); }

  /// The place of joint i of the parameter in the vectors of the function.
  Eigen::Index order(Eigen::Index i) const
  {
    const auto & own = function_->joints();
    return std::find(own.begin(), own.end(), joints_[static_cast<std::size_t>(i)]) - own.begin();
  }

  std::vector<std::string> joints_;
  urdf::Model model_;
  std::optional<ExportedFunction> function_;
};
}  // namespace dynamics_controllers

PLUGINLIB_EXPORT_CLASS(dynamics_controllers::InverseDynamicsSolver, inverse_dynamics_solver::InverseDynamicsSolver)
