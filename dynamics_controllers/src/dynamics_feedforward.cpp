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

bool is_gain(const std::string & parameter) { return parameter.rfind("gains.", 0) == 0; }

/// The joint of gains.<joint>.p
std::string joint_of(const std::string & parameter)
{
  const auto first = parameter.find('.') + 1;
  return parameter.substr(first, parameter.rfind('.') - first);
}

bool contains(const std::vector<std::string> & names, const std::string & name)
{
  return std::find(names.begin(), names.end(), name) != names.end();
}

std::vector<std::string> joined(std::vector<std::string> first, const std::vector<std::string> & second)
{
  first.insert(first.end(), second.begin(), second.end());
  return first;
}

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
    require_known_names();
    const auto function = load_inverse_dynamics(
      params_.library, joined(params_.joints, params_.measured_joints), get_robot_description());
    const std::lock_guard<std::mutex> guard(payload_mutex_);
    law_.configure(function, settings(function.joints()));
    payloads_.clear();
  } catch (const std::exception & error) {
    RCLCPP_ERROR(get_node()->get_logger(), "%s", error.what());
    return CallbackReturn::FAILURE;  // ERROR would end in the state `finalized`
  }
  joints_ = law_.function().joints();
  commanded_.clear();
  for (std::size_t i = 0; i < joints_.size(); ++i) {
    if (contains(params_.joints, joints_[i])) { commanded_.push_back(i); }
  }
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
  reported_invalid_ = reported_limited_ = 0;
  report_timer_ = get_node()->create_wall_timer(std::chrono::seconds(1), [this] { report(); });
  may_change_ = get_node()->add_on_set_parameters_callback(
    [this](const std::vector<rclcpp::Parameter> & parameters) { return may_change(parameters); });
  change_gains_ = get_node()->add_post_set_parameters_callback(
    [this](const std::vector<rclcpp::Parameter> & parameters) { change_gains(parameters); });
  warn_of_other_joints();
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
    if (!contains(params_.joints, name)) {
      all.joints.push_back({0, 0, 0, 0, 0, std::numeric_limits<double>::infinity(), false});
      continue;
    }
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

/// p and d of all joints, in the order of the function.
std::vector<double> DynamicsFeedforward::gains() const
{
  std::vector<double> all;
  for (const auto & name : joints_) {
    const auto gains = params_.gains.joints_map.find(name);
    const bool has_gains = gains != params_.gains.joints_map.end();
    all.insert(all.end(), {has_gains ? gains->second.p : 0.0, has_gains ? gains->second.d : 0.0});
  }
  return all;
}

/// Throws std::runtime_error for joints that are not in the description, and for gains and drives of joints that are
/// not in `joints`.
void DynamicsFeedforward::require_known_names() const
{
  for (const auto & name : joined(params_.joints, params_.measured_joints)) {
    if (!model_.getJoint(name)) {
      throw std::runtime_error("joint " + in_quotes(name) + " is not in robot_description");
    }
  }
  for (const auto & name : params_.measured_joints) {
    if (contains(params_.joints, name)) {
      throw std::runtime_error("joint " + in_quotes(name) + " is in joints and in measured_joints; name it once");
    }
  }
  const auto listed = get_node()->list_parameters({"gains", "drives"}, 0);
  for (const auto & name : listed.names) {
    if (!contains(params_.joints, joint_of(name))) {
      throw std::runtime_error(
        "parameter " + in_quotes(name) + " is of a joint that is not in the parameter joints; correct its name");
    }
  }
}

/// Log what a user may have forgotten: joints that the model keeps at zero, and gains.
void DynamicsFeedforward::warn_of_other_joints() const
{
  std::string others;
  for (const auto & [name, joint] : model_.joints_) {
    const bool moves = joint->type != urdf::Joint::FIXED && !joint->mimic;
    if (moves && !contains(joints_, name)) { others += (others.empty() ? "" : ", ") + in_quotes(name); }
  }
  if (!others.empty()) {
    RCLCPP_WARN(
      get_node()->get_logger(),
      "the model keeps these joints of robot_description at zero: %s; name those that move in measured_joints",
      others.c_str());
  }
  const auto all = gains();
  const bool has_gains = std::any_of(all.begin(), all.end(), [](double gain) { return gain > 0; });
  if (params_.law != "effort" && !has_gains) {
    RCLCPP_WARN(
      get_node()->get_logger(), "law %s without gains: position errors stay; set gains.<joint>.p and .d",
      params_.law.c_str());
  }
}

/// Gains change at once. The rest is read by on_configure alone.
rcl_interfaces::msg::SetParametersResult DynamicsFeedforward::may_change(
  const std::vector<rclcpp::Parameter> & parameters) const
{
  rcl_interfaces::msg::SetParametersResult result;
  result.successful = true;
  for (const auto & parameter : parameters) {
    const auto & name = parameter.get_name();
    const bool is_read_once = name.rfind("compensate.", 0) == 0 || name.rfind("drives.", 0) == 0 ||
      name == "hold_time" || name == "on_deactivate";
    if (is_read_once) {
      result.successful = false;
      result.reason = name + " is read when the controller is configured: deactivate it and clean it up first";
    }
    const bool is_finite = parameter.get_type() == rclcpp::ParameterType::PARAMETER_DOUBLE &&
      std::isfinite(parameter.as_double());
    if (is_gain(name) && !(is_finite && contains(params_.joints, joint_of(name)))) {
      result.successful = false;
      result.reason = name + " must be a finite number, of a joint in the parameter joints";
    }
  }
  return result;
}

void DynamicsFeedforward::change_gains(const std::vector<rclcpp::Parameter> & parameters)
{
  for (const auto & parameter : parameters) {
    const auto & name = parameter.get_name();
    if (!is_gain(name)) { continue; }
    auto & gains = params_.gains.joints_map.at(joint_of(name));
    (name.back() == 'p' ? gains.p : gains.d) = parameter.as_double();
  }
  law_.set_gains(gains());
}

controller_interface::CallbackReturn DynamicsFeedforward::on_activate(const rclcpp_lifecycle::State &)
{
  read_state();
  const auto invalid = first_invalid(q_.data(), qd_.data(), joints_.size());
  if (invalid < joints_.size()) {
    RCLCPP_ERROR(
      get_node()->get_logger(),
      "the state of joint %s is not finite; activate the controller when its hardware sends states",
      in_quotes(joints_[invalid]).c_str());
    return CallbackReturn::FAILURE;
  }
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
  may_change_.reset();
  change_gains_.reset();
  references_.clear();
  return CallbackReturn::SUCCESS;
}

controller_interface::InterfaceConfiguration DynamicsFeedforward::command_interface_configuration() const
{
  std::vector<std::string> commanded;
  for (const auto i : commanded_) { commanded.push_back(joints_[i]); }
  return individual(commanded, std::array{"effort"});
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
    for (const auto i : commanded_) {
      references_.push_back(std::make_shared<hardware_interface::CommandInterface>(
        std::string(get_node()->get_name()) + "/" + joints_[i], kind));
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
  read_state();
  for (std::size_t k = 0; k < references_.size(); ++k) {
    const std::size_t kind = k / commanded_.size(), joint = commanded_[k % commanded_.size()];
    values_[kind * n + joint] = references_[k]->get_optional().value_or(nan);
  }
  const double * first = values_.data();
  const Reference reference = reference_kinds_.size() == 1
                                ? Reference{first, nullptr, nullptr, nullptr}
                                : Reference{nullptr, first, first + n, first + 2 * n};
  const auto status = law_.update(q_.data(), qd_.data(), reference, period.seconds(), tau_.data());
  if (status == Status::failed) { return controller_interface::return_type::ERROR; }
  write(tau_);
  return controller_interface::return_type::OK;
}

void DynamicsFeedforward::read_state()
{
  const std::size_t n = joints_.size();
  for (std::size_t i = 0; i < n; ++i) {
    q_[i] = state_interfaces_[i].get_optional().value_or(nan);
    qd_[i] = state_interfaces_[n + i].get_optional().value_or(nan);
  }
}

void DynamicsFeedforward::write(const std::vector<double> & efforts)
{
  for (std::size_t k = 0; k < commanded_.size(); ++k) {
    (void)command_interfaces_[k].set_value(efforts[commanded_[k]]);
  }
}

void DynamicsFeedforward::report()
{
  const unsigned long invalid = law_.invalid_states, limited = law_.limited_torques;
  if (invalid > reported_invalid_) {
    const std::size_t joint = law_.invalid_joint;
    const std::string cause = joint < joints_.size()
                                ? "is not finite at joint " + in_quotes(joints_[joint]) + "; check its state interfaces"
                                : "is singular, or its torques are not finite";
    RCLCPP_WARN(
      get_node()->get_logger(), "%lu states were invalid, in total %lu; the last one %s", invalid - reported_invalid_,
      invalid, cause.c_str());
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
