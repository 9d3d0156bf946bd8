// What both programs read: a model on standard input, so that nothing of the wheel's library is linked, whose
// Eigen is aligned otherwise.
#pragma once
#include <pinocchio/multibody/joint.hpp>
#include <pinocchio/multibody.hpp>

#include <iostream>
#include <string>

namespace pin = pinocchio;

// One line a joint: parent type placement (R row-major, p) mass com inertia (row-major, about the com).
static pin::Model read_model(std::istream & in)
{
  pin::Model model;
  std::string type;
  pin::JointIndex parent;
  while (in >> parent >> type) {
    double x[25];
    for (double & value : x) in >> value;
    using Matrix = Eigen::Matrix<double, 3, 3, Eigen::RowMajor>;
    const pin::SE3 placement(Eigen::Map<Matrix>(x), Eigen::Map<Eigen::Vector3d>(x + 9));
    const pin::Inertia inertia(x[12], Eigen::Map<Eigen::Vector3d>(x + 13), Eigen::Map<Matrix>(x + 16));
    pin::JointModel joint = pin::JointModelFreeFlyer();
    if (type == "JointModelRX") joint = pin::JointModelRX();
    if (type == "JointModelRY") joint = pin::JointModelRY();
    if (type == "JointModelRZ") joint = pin::JointModelRZ();
    if (type == "JointModelPX") joint = pin::JointModelPX();
    if (type == "JointModelPY") joint = pin::JointModelPY();
    if (type == "JointModelPZ") joint = pin::JointModelPZ();
    const auto id = model.addJoint(parent, joint, placement, "j" + std::to_string(model.njoints));
    model.appendBodyToJoint(id, inertia);
  }
  return model;
}
