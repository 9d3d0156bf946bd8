// FeedforwardLaw for ctypes. Functions that fail return NULL or a negative number; `failure` is the message.
#include <algorithm>
#include <exception>
#include <memory>
#include <sstream>
#include <thread>
#include <string>

#include "dynamics_controllers/feedforward_law.hpp"
#include "dynamics_controllers/robot_function.hpp"

namespace dc = dynamics_controllers;
static std::string message;

static std::vector<std::string> separated(const char * names)
{
  std::vector<std::string> all;
  std::istringstream stream(names);
  for (std::string name; std::getline(stream, name, ',');) { all.push_back(name); }
  return all;
}

extern "C" {
const char * failure() { return message.c_str(); }

// joints: p, d, armature, viscous, coulomb, effort_limit, continuous of each
dc::FeedforwardLaw * create(
  const char * library, int law, int gravity, int friction, double hold_time, const double * joints, int count)
{
  auto made = std::make_unique<dc::FeedforwardLaw>();
  try {
    dc::FeedforwardSettings settings{static_cast<dc::Law>(law), gravity != 0, friction != 0, hold_time, {}};
    for (const double * row = joints; row != joints + 7 * count; row += 7) {
      settings.joints.push_back({row[0], row[1], row[2], row[3], row[4], row[5], row[6] != 0.0});
    }
    made->configure(dc::ExportedFunction(library, "inverse_dynamics"), settings);
  } catch (const std::exception & error) {
    message = error.what();
    return nullptr;
  }
  return made.release();
}

int set_gains(dc::FeedforwardLaw * law, const double * gains, int count)
{
  try {
    law->set_gains({gains, gains + count});
  } catch (const std::exception & error) {
    message = error.what();
    return -1;
  }
  return 0;
}

void destroy(dc::FeedforwardLaw * law) { delete law; }
void reset(dc::FeedforwardLaw * law) { law->reset(); }

int update(
  dc::FeedforwardLaw * law, const double * q, const double * qd, const double * effort, const double * position,
  const double * velocity, const double * acceleration, double period, double * tau)
{
  return static_cast<int>(law->update(q, qd, {effort, position, velocity, acceleration}, period, tau));
}

unsigned long limited_torques(const dc::FeedforwardLaw * law) { return law->limited_torques; }
unsigned long limited_joint(const dc::FeedforwardLaw * law) { return law->limited_joint; }
unsigned long invalid_joint(const dc::FeedforwardLaw * law) { return law->invalid_joint; }
unsigned long invalid_states(const dc::FeedforwardLaw * law) { return law->invalid_states; }
const char * joint(const dc::FeedforwardLaw * law, int k)
{
  return law->function().joints()[static_cast<std::size_t>(k)].c_str();
}
const char * urdf_hash(const dc::FeedforwardLaw * law) { return law->function().urdf_hash().c_str(); }

// Adds a payload to the nominal inertia of a body. all: mass, center, moments, rotation, position (22)
int attach(dc::FeedforwardLaw * law, int body, const double * all)
{
  dc::Payload payload{all[0], {}, {}};
  std::array<double, 9> rotation;
  std::array<double, 3> position;
  std::copy_n(all + 1, 3, payload.center.begin());
  std::copy_n(all + 4, 6, payload.moments.begin());
  std::copy_n(all + 10, 9, rotation.begin());
  std::copy_n(all + 19, 3, position.begin());
  try {
    auto inertia = law->function().inertia();
    law->function().add_payload(inertia, static_cast<std::size_t>(body), dc::moved(payload, rotation, position));
    law->set_inertia(inertia);
  } catch (const std::exception & error) {
    message = error.what();
    return -1;
  }
  return 0;
}

// Reads a LatestVector while another thread writes k = 1 ... count to all its entries. The last value, or -1 if a
// vector is mixed or older than one before.
int latest_of(int count)
{
  dc::LatestVector shared;
  shared.reset(std::vector<double>(50, 0.0));
  std::thread writer([&] {
    for (int k = 1; k <= count; ++k) { shared.write(std::vector<double>(50, k)); }
  });
  double last = 0.0;
  while (last >= 0.0 && last < count) {
    const auto & read = shared.read();
    const bool is_mixed = std::any_of(read.begin(), read.end(), [&](double value) { return value < read[0] || value > read[0]; });
    last = is_mixed || read[0] < last ? -1.0 : read[0];
  }
  writer.join();
  return static_cast<int>(last);
}

// Null, or the message of require_joints for names separated by commas
const char * joints_fault(const dc::FeedforwardLaw * law, const char * names)
{
  try {
    dc::require_joints(law->function(), separated(names));
  } catch (const std::exception & error) {
    return (message = error.what()).c_str();
  }
  return nullptr;
}

const char * description_fault(const dc::FeedforwardLaw * law, const char * hash)
{
  try {
    dc::require_description(law->function(), hash);
  } catch (const std::exception & error) {
    return (message = error.what()).c_str();
  }
  return nullptr;
}

// The joints of an exported description, separated by commas, or null
const char * exported(const char * command, const char * description, const char * joints, int milliseconds)
{
  try {
    const auto function =
      dc::export_inverse_dynamics(command, description, separated(joints), std::chrono::milliseconds(milliseconds));
    message.clear();
    for (const auto & name : function.joints()) { message += (message.empty() ? "" : ",") + name; }
    return message.c_str();
  } catch (const std::exception & error) {
    message = error.what();
    return nullptr;
  }
}
}
