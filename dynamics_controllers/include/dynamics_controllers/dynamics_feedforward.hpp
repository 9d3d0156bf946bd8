// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <utility>
#include <vector>

#include "controller_interface/chainable_controller_interface.hpp"
#include "dynamics_controllers/feedforward_law.hpp"
#include "dynamics_interfaces/srv/set_payload.hpp"
#include "rclcpp/rclcpp.hpp"
#include "urdf/model.h"

#include "dynamics_controllers/dynamics_feedforward_parameters.hpp"

namespace dynamics_controllers
{
/// Torques of a robot model for the effort interfaces of its joints. Without a preceding controller, and
/// without references, the arm is carried: gravity and Coriolis torques.
class DynamicsFeedforward : public controller_interface::ChainableControllerInterface
{
public:
  using CallbackReturn = controller_interface::CallbackReturn;

  CallbackReturn on_init() override;
  CallbackReturn on_configure(const rclcpp_lifecycle::State & previous) override;
  CallbackReturn on_activate(const rclcpp_lifecycle::State & previous) override;
  CallbackReturn on_deactivate(const rclcpp_lifecycle::State & previous) override;
  CallbackReturn on_cleanup(const rclcpp_lifecycle::State & previous) override;

  controller_interface::InterfaceConfiguration command_interface_configuration() const override;
  controller_interface::InterfaceConfiguration state_interface_configuration() const override;

  controller_interface::return_type update_reference_from_subscribers(
    const rclcpp::Time & time, const rclcpp::Duration & period) override;
  controller_interface::return_type update_and_write_commands(
    const rclcpp::Time & time, const rclcpp::Duration & period) override;

protected:
  std::vector<hardware_interface::CommandInterface::SharedPtr> on_export_reference_interfaces_list() override;

private:
  using SetPayload = dynamics_interfaces::srv::SetPayload;

  FeedforwardSettings settings(const std::vector<std::string> & joints) const;
  std::vector<double> gains() const;
  void require_known_names() const;
  void warn_of_other_joints() const;
  rcl_interfaces::msg::SetParametersResult may_change(const std::vector<rclcpp::Parameter> & parameters) const;
  void change_gains(const std::vector<rclcpp::Parameter> & parameters);
  void read_state();
  void set_payload(const SetPayload::Request & request, SetPayload::Response & response);
  void report();
  void write(const std::vector<double> & efforts);

  std::shared_ptr<dynamics_feedforward::ParamListener> param_listener_;
  dynamics_feedforward::Params params_;
  urdf::Model model_;
  FeedforwardLaw law_;
  std::vector<std::string> joints_, reference_kinds_;  // joints in the order of the function
  std::vector<std::size_t> commanded_;                 // places in joints_ of those with a command interface
  std::vector<double> q_, qd_, tau_, values_;          // values_: references of all joints, kind by kind
  std::vector<hardware_interface::CommandInterface::SharedPtr> references_;

  std::mutex payload_mutex_;  // of service and configuration, not of the control loop
  std::map<std::string, std::pair<std::size_t, Payload>> payloads_;  // by link: body, payload in its axes
  rclcpp::Service<SetPayload>::SharedPtr payload_service_;
  rclcpp::TimerBase::SharedPtr report_timer_;
  rclcpp::node_interfaces::OnSetParametersCallbackHandle::SharedPtr may_change_;
  rclcpp::node_interfaces::PostSetParametersCallbackHandle::SharedPtr change_gains_;
  unsigned long reported_invalid_ = 0, reported_limited_ = 0;
};
}  // namespace dynamics_controllers
