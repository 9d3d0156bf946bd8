// calls_in_controller URDF LIBRARY: activates a DynamicsFeedforward of each law on interfaces of its own, and counts what
// its updates call of the allocator, of locks and of files. Fails unless there are none, and the efforts are finite.
#include <cmath>
#include <fstream>
#include <iterator>
#include <limits>

#include "counted_calls.hpp"
#include "dynamics_controllers/dynamics_feedforward.hpp"

using controller_interface::return_type;
using hardware_interface::CommandInterface;
using hardware_interface::StateInterface;

/// The interfaces with these names, joint/kind.
template <typename Interface>
std::vector<std::shared_ptr<Interface>> interfaces(const std::vector<std::string> & names)
{
  std::vector<std::shared_ptr<Interface>> all;
  for (const auto & name : names) {
    const auto slash = name.find('/');
    all.push_back(std::make_shared<Interface>(name.substr(0, slash), name.substr(slash + 1)));
    (void)all.back()->set_value(0.1);
  }
  return all;
}

template <typename Loaned, typename Interface>
std::vector<Loaned> loaned(const std::vector<std::shared_ptr<Interface>> & all)
{
  std::vector<Loaned> loans;
  for (const auto & one : all) { loans.emplace_back(one, nullptr); }
  return loans;
}

/// Whether 2000 updates of a law are free of these calls, return OK and write finite efforts.
bool is_quiet(const std::string & law, const std::string & description, const std::string & library)
{
  dynamics_controllers::DynamicsFeedforward controller;
  controller_interface::ControllerInterfaceParams parameters;
  parameters.controller_name = law;
  parameters.robot_description = description;
  parameters.update_rate = parameters.controller_manager_update_rate = 500;
  parameters.node_options = controller.define_custom_node_options();
  parameters.node_options.parameter_overrides(
    {{"joints", std::vector<std::string>{"elbow", "shoulder"}}, {"law", law}, {"library", library},
      {"compensate.friction", true}});
  if (controller.init(parameters) != return_type::OK) { return false; }
  if (controller.configure().label() != "inactive") { return false; }
  const auto references = controller.export_reference_interfaces();
  const auto efforts = interfaces<CommandInterface>(controller.command_interface_configuration().names);
  const auto states = interfaces<StateInterface>(controller.state_interface_configuration().names);
  controller.assign_interfaces(
    loaned<hardware_interface::LoanedCommandInterface>(efforts),
    loaned<hardware_interface::LoanedStateInterface>(states));
  controller.get_node()->activate();
  const rclcpp::Time time(0);
  const rclcpp::Duration period(0, 2'000'000);
  bool is_ok = true;
  for (int cycle = 0; cycle < 2000; ++cycle) {
    (void)states[0]->set_value(cycle % 10 ? 0.001 * cycle : std::nan(""));  // one cycle in ten is bridged
    for (const auto & reference : references) { (void)reference->set_value(cycle % 7 ? 0.1 : std::nan("")); }
    is_counting = true;
    const auto result = controller.update(time, period);
    is_counting = false;
    const bool is_first = cycle == 0;  // without a valid state
    is_ok = is_ok && (result == return_type::OK) != is_first;
    for (const auto & effort : efforts) { is_ok = is_ok && std::isfinite(effort->get_optional().value()); }
  }
  const bool has_none = allocations + locks + writes == 0;
  report(law.c_str(), 2000);
  controller.get_node()->deactivate();
  controller.release_interfaces();
  return is_ok && has_none;
}

/// Whether a controller of the elbow reads the shoulder, and sends nothing to it.
bool is_of_one_joint(const std::string & description, const std::string & library)
{
  dynamics_controllers::DynamicsFeedforward controller;
  controller_interface::ControllerInterfaceParams parameters;
  parameters.controller_name = "one_joint";
  parameters.robot_description = description;
  parameters.update_rate = parameters.controller_manager_update_rate = 500;
  parameters.node_options = controller.define_custom_node_options();
  parameters.node_options.parameter_overrides(
    {{"joints", std::vector<std::string>{"elbow"}}, {"measured_joints", std::vector<std::string>{"shoulder"}},
      {"library", library}});
  if (controller.init(parameters) != return_type::OK || controller.configure().label() != "inactive") { return false; }
  const std::vector<std::string> states{"shoulder/position", "elbow/position", "shoulder/velocity", "elbow/velocity"};
  return controller.command_interface_configuration().names == std::vector<std::string>{"elbow/effort"} &&
    controller.state_interface_configuration().names == states && controller.export_reference_interfaces().size() == 1;
}

int main(int count, char ** words)
{
  rclcpp::init(count, words);
  report_calls_on_purpose();
  std::ifstream file(words[1]);
  const std::string description{std::istreambuf_iterator<char>(file), {}};
  bool is_ok = true;
  for (const char * law : {"effort", "feedforward", "computed_torque"}) {
    is_ok = is_quiet(law, description, words[2]) && is_ok;
  }
  is_ok = is_of_one_joint(description, words[2]) && is_ok;
  rclcpp::shutdown();
  return is_ok ? 0 : 1;
}
