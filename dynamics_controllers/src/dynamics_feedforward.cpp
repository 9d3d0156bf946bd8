// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
#include "dynamics_controllers/dynamics_feedforward.hpp"

#include <algorithm>
#include <cmath>
#include <limits>
#include <stdexcept>

#include "dynamics_controllers/description.hpp"
#include "dynamics_controllers/robot_function.hpp"
#include "pluginlib/class_list_macros.hpp"

namespace dynamics_controllers
{
namespace
{
constexpr double nan = std::numeric_limits<double>::quiet_NaN();

double or_else(double value, double other) { return std::isnan(value) ? other : value; }

template <typename Interfaces>
controller_interface::InterfaceConfiguration individual(
  const std::vector<std::string> & joints, const Interfaces & interfaces)
{
  controller_interface::InterfaceConfiguration all{
    controller_interface::interface_configuration_type::INDIVIDUAL, {}};
  for (const char * interface : interfaces) {
    for (const auto & joint : joints) { all.names.push_back(joint + "/" + interface); }
  }
  return all;
}
}  // namespace

controller_interface::CallbackReturn DynamicsFeedforward::on_init()
{
  try {
    param_listener_ = std::make_shared<dynamics_feedforward::ParamListener>(get_node());
  } catch (const std::exception & error) {
    RCLCPP_ERROR(get_node()->get_logger(), "parameters: %s", error.what());
    return CallbackReturn::ERROR;
  }
  return CallbackReturn::SUCCESS;
}

controller_interface::CallbackReturn DynamicsFeedforward::on_configure(const rclcpp_lifecycle::State &)
{
  try {
    params_ = param_listener_->get_params();
    if (!model_.initString(get_robot_description())) {
      throw std::runtime_error("robot_description is not a URDF; check robot_state_publisher");
    }
    const auto function = load_inverse_dynamics(params_.library, params_.joints, get_robot_description());
    const std::lock_guard<std::mutex> guard(payload_mutex_);
    law_.configure(function, settings(function.joints()));
    payloads_.clear();
  } catch (const std::exception & error) {
    RCLCPP_ERROR(get_node()->get_logger(), "%s", error.what());
    return CallbackReturn::ERROR;
  }
  joints_ = law_.function().joints();
  reference_kinds_ = params_.law == "effort" ? std::vector<std::string>{"effort"}
                                             : std::vector<std::string>{"position", "velocity", "acceleration"};
  q_.assign(joints_.size(), nan);
  qd_ = tau_ = q_;
  values_.assign(reference_kinds_.size() * joints_.size(), nan);
  payload_service_ = get_node()->create_service<SetPayload>(
    "~/set_payload", [this](
                       const SetPayload::Request::SharedPtr request, SetPayload::Response::SharedPtr response) {
      set_payload(*request, *response);
    });
  report_timer_ = get_node()->create_wall_timer(std::chrono::seconds(1), [this] { report(); });
  RCLCPP_INFO(
    get_node()->get_logger(), "law %s of %zu joints, function %s of dynamics_node %s", params_.law.c_str(),
    joints_.size(), law_.function().name().c_str(), law_.function().version().c_str());
  return CallbackReturn::SUCCESS;
}

FeedforwardSettings DynamicsFeedforward::settings(const std::vector<std::string> & joints) const
{
  FeedforwardSettings all;
  all.law = params_.law == "effort"        ? Law::effort
            : params_.law == "feedforward" ? Law::feedforward
                                           : Law::computed_torque;
  all.gravity = params_.compensate.gravity;
  all.friction = params_.compensate.friction;
  all.hold_time = params_.hold_time;
  for (const auto & name : joints) {
    const auto & gains = params_.gains.joints_map.at(name);
    const auto & drive = params_.drives.joints_map.at(name);
    const auto joint = model_.getJoint(name);
    const auto & limits = joint->limits;
    const auto & dynamics = joint->dynamics;
    all.joints.push_back(
      {gains.p, gains.d, drive.armature, or_else(drive.viscous, dynamics ? dynamics->damping : 0.0),
        or_else(drive.coulomb, dynamics ? dynamics->friction : 0.0),
        or_else(drive.effort_limit, limits ? limits->effort : 0.0), joint->type == urdf::Joint::CONTINUOUS});
  }
  return all;
}

controller_interface::CallbackReturn DynamicsFeedforward::on_activate(const rclcpp_lifecycle::State &)
{
  for (auto & reference : references_) { (void)reference->set_value(nan); }
  law_.reset();
  return CallbackReturn::SUCCESS;
}

controller_interface::CallbackReturn DynamicsFeedforward::on_deactivate(const rclcpp_lifecycle::State &)
{
  if (params_.on_deactivate == "zero" || !law_.hold(tau_.data())) { tau_.assign(tau_.size(), 0.0); }
  write(tau_);
  return CallbackReturn::SUCCESS;
}

controller_interface::CallbackReturn DynamicsFeedforward::on_cleanup(const rclcpp_lifecycle::State &)
{
  payload_service_.reset();
  report_timer_.reset();
  references_.clear();
  return CallbackReturn::SUCCESS;
}

controller_interface::InterfaceConfiguration DynamicsFeedforward::command_interface_configuration() const
{
  return individual(joints_, std::array{"effort"});
}

controller_interface::InterfaceConfiguration DynamicsFeedforward::state_interface_configuration() const
{
  return individual(joints_, std::array{"position", "velocity"});
}

std::vector<hardware_interface::CommandInterface::SharedPtr>
DynamicsFeedforward::on_export_reference_interfaces_list()
{
  references_.clear();
  for (const auto & kind : reference_kinds_) {
    for (const auto & joint : joints_) {
      references_.push_back(std::make_shared<hardware_interface::CommandInterface>(
        std::string(get_node()->get_name()) + "/" + joint, kind));
      (void)references_.back()->set_value(nan);
    }
  }
  return references_;
}

controller_interface::return_type DynamicsFeedforward::update_reference_from_subscribers(
  const rclcpp::Time &, const rclcpp::Duration &)
{
  return controller_interface::return_type::OK;  // the references stay NaN
}

controller_interface::return_type DynamicsFeedforward::update_and_write_commands(
  const rclcpp::Time &, const rclcpp::Duration & period)
{
  const std::size_t n = joints_.size();
  for (std::size_t i = 0; i < n; ++i) {
    q_[i] = state_interfaces_[i].get_optional().value_or(nan);
    qd_[i] = state_interfaces_[n + i].get_optional().value_or(nan);
  }
  for (std::size_t k = 0; k < values_.size(); ++k) { values_[k] = references_[k]->get_optional().value_or(nan); }
  const double * first = values_.data();
  const Reference reference = reference_kinds_.size() == 1
                                ? Reference{first, nullptr, nullptr, nullptr}
                                : Reference{nullptr, first, first + n, first + 2 * n};
  const auto status = law_.update(q_.data(), qd_.data(), reference, period.seconds(), tau_.data());
  if (status == Status::failed) { return controller_interface::return_type::ERROR; }
  write(tau_);
  return controller_interface::return_type::OK;
}

void DynamicsFeedforward::write(const std::vector<double> & efforts)
{
  for (std::size_t i = 0; i < efforts.size(); ++i) { (void)command_interfaces_[i].set_value(efforts[i]); }
}

void DynamicsFeedforward::report()
{
  const unsigned long invalid = law_.invalid_states, limited = law_.limited_torques;
  if (invalid > reported_invalid_) {
    RCLCPP_WARN(
      get_node()->get_logger(),
      "%lu states or their torques were not finite, or singular, in total %lu; check the state interfaces",
      invalid - reported_invalid_, invalid);
  }
  if (limited > reported_limited_) {
    RCLCPP_WARN(
      get_node()->get_logger(), "%lu torques were limited, in total %lu, the last one of joint %s; check its effort_limit",
      limited - reported_limited_, limited, in_quotes(joints_[law_.limited_joint]).c_str());
  }
  reported_invalid_ = invalid;
  reported_limited_ = limited;
}

void DynamicsFeedforward::set_payload(const SetPayload::Request & request, SetPayload::Response & response)
{
  const auto & function = law_.function();
  try {
    if (function.inertia().empty()) {
      throw std::runtime_error(
        function.name() + " has constant inertias; export it with --runtime-parameters inertia");
    }
    const auto & own = request.inertia;
    const auto place = find_body(model_, request.link, function.bodies());
    const Payload payload = moved(
      {own.m, {own.com.x, own.com.y, own.com.z}, {own.ixx, own.ixy, own.ixz, own.iyy, own.iyz, own.izz}},
      place.rotation, place.position);
    const std::lock_guard<std::mutex> guard(payload_mutex_);
    payloads_.erase(request.link);
    if (own.m > 0) { payloads_[request.link] = {place.body, payload}; }
    auto inertia = function.inertia();
    for (const auto & [link, attached] : payloads_) {
      function.add_payload(inertia, attached.first, attached.second);
    }
    law_.set_inertia(inertia);
    response.success = true;
    response.message = std::to_string(payloads_.size()) + " links have a payload";
  } catch (const std::exception & error) {
    response.success = false;
    response.message = error.what();
  }
}
}  // namespace dynamics_controllers

PLUGINLIB_EXPORT_CLASS(
  dynamics_controllers::DynamicsFeedforward, controller_interface::ChainableControllerInterface)
