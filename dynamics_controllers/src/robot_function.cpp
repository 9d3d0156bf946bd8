// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
#include "dynamics_controllers/robot_function.hpp"

#include <fcntl.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <sys/wait.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <stdexcept>
#include <thread>

namespace dynamics_controllers
{
namespace
{
/// A private folder that is removed at the end.
class TemporaryFolder
{
public:
  TemporaryFolder()
  {
    std::string pattern = (std::filesystem::temp_directory_path() / "dynamics_controllers.XXXXXX").string();
    if (!mkdtemp(pattern.data())) {
      throw std::runtime_error("no folder could be made in " + pattern + ": " + std::strerror(errno));
    }
    path_ = pattern;
  }
  TemporaryFolder(const TemporaryFolder &) = delete;
  TemporaryFolder & operator=(const TemporaryFolder &) = delete;
  ~TemporaryFolder()
  {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  std::string operator/(const std::string & name) const { return (path_ / name).string(); }

private:
  std::filesystem::path path_;
};

/// Run a program with an argument vector, its output in a file; the exit status, or -1 after the timeout.
int run(std::vector<std::string> words, const std::string & output, std::chrono::milliseconds timeout)
{
  std::vector<char *> arguments;
  for (auto & word : words) { arguments.push_back(word.data()); }
  arguments.push_back(nullptr);
  posix_spawn_file_actions_t files;
  posix_spawn_file_actions_init(&files);
  posix_spawn_file_actions_addopen(&files, 0, "/dev/null", O_RDONLY, 0);
  posix_spawn_file_actions_addopen(&files, 1, output.c_str(), O_WRONLY | O_CREAT, 0600);
  posix_spawn_file_actions_adddup2(&files, 1, 2);
  posix_spawnattr_t attributes;  // a process group, with the compiler in it
  posix_spawnattr_init(&attributes);
  posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  pid_t child = 0;
  const int error = posix_spawn(&child, arguments[0], &files, &attributes, arguments.data(), environ);
  posix_spawn_file_actions_destroy(&files);
  posix_spawnattr_destroy(&attributes);
  if (error) { throw std::runtime_error("command " + in_quotes(words[0]) + " does not run: " + std::strerror(error)); }
  const auto end = std::chrono::steady_clock::now() + timeout;
  int status = 0;
  while (waitpid(child, &status, WNOHANG) == 0) {
    if (std::chrono::steady_clock::now() > end) {
      kill(-child, SIGKILL);
      waitpid(child, &status, 0);
      return -1;
    }
    std::this_thread::sleep_for(std::chrono::milliseconds(10));
  }
  return status;
}

std::string last_line(const std::string & path)
{
  std::ifstream file(path);
  std::string last = "no output", line;
  while (std::getline(file, line)) {
    if (!line.empty()) { last = line; }
  }
  return last;
}

std::string joined(const std::vector<std::string> & names)
{
  std::string all;
  for (const auto & name : names) { all += (all.empty() ? "" : ",") + name; }
  return all;
}

/// The first of some names that is not among others, or null.
const std::string * missing(const std::vector<std::string> & names, const std::vector<std::string> & others)
{
  for (const auto & name : names) {
    if (std::find(others.begin(), others.end(), name) == others.end()) { return &name; }
  }
  return nullptr;
}
}  // namespace

ExportedFunction export_inverse_dynamics(
  const std::string & command, const std::string & description, const std::vector<std::string> & joints,
  std::chrono::milliseconds timeout)
{
  const TemporaryFolder folder;
  std::ofstream(folder / "robot.urdf", std::ios::binary) << description;
  const int status = run(
    {command, "export", folder / "robot.urdf", "--joints=" + joined(joints), "--name=robot",
      "--function=inverse_dynamics", "--runtime-parameters=inertia", "--target=shared",
      "--output=" + (folder / "library")},
    folder / "output", timeout);
  if (status != 0) {
    const std::string cause = status < 0 ? "exceeds " + std::to_string(timeout.count()) + " ms"
                                         : "fails: " + in_quotes(last_line(folder / "output"));
    throw std::runtime_error(
      "the export of robot_description " + cause +
      "; run `dynamics export` by hand, and set the parameter library to its result");
  }
  return ExportedFunction(folder / "library/librobot.so", "inverse_dynamics");
}

void require_joints(const ExportedFunction & function, const std::vector<std::string> & joints)
{
  const std::string export_again = "; export with --joints=" + in_quotes(joined(joints));
  if (const auto * name = missing(joints, function.joints())) {
    throw std::runtime_error(
      "joint " + in_quotes(*name) + " of the parameter joints is not in " + function.name() + export_again);
  }
  if (const auto * name = missing(function.joints(), joints)) {
    throw std::runtime_error(
      function.name() + " moves the joint " + in_quotes(*name) + ", which is not in the parameter joints" +
      export_again);
  }
}

void require_description(const ExportedFunction & function, const std::string & hash)
{
  if (function.urdf_hash() == hash) { return; }
  throw std::runtime_error(
    function.name() + " is of a description with SHA-256 " + in_quotes(function.urdf_hash()) +
    ", and robot_description has " + in_quotes(hash) +
    "; export again from the text on the topic robot_description, or leave the parameter library empty");
}

Payload moved(
  const Payload & payload, const std::array<double, 9> & rotation, const std::array<double, 3> & position)
{
  const auto & [mass, center, moments] = payload;
  const auto & [xx, xy, xz, yy, yz, zz] = moments;
  bool is_possible = mass >= 0 && std::isfinite(mass);
  for (const double value : center) { is_possible = is_possible && std::isfinite(value); }
  for (const double value : moments) { is_possible = is_possible && std::isfinite(value); }
  // The second moments of mass are positive semidefinite: no principal minor is negative
  const double half = (xx + yy + zz) / 2, a = half - xx, b = half - yy, c = half - zz;
  const double slack = 1e-9 * std::max(half, 1e-9);
  is_possible = is_possible && half >= 0 && std::min({a, b, c}) >= -slack &&
    std::min({a * b - xy * xy, a * c - xz * xz, b * c - yz * yz}) >= -slack * half &&
    a * (b * c - yz * yz) - b * xz * xz - c * xy * xy - 2 * xy * xz * yz >= -slack * half * half;
  if (!is_possible) {
    throw std::invalid_argument(
      "no body has this payload: mass and moments of inertia must be finite and not negative, and no principal "
      "moment may exceed the sum of the others");
  }
  const double own[3][3] = {{xx, xy, xz}, {xy, yy, yz}, {xz, yz, zz}};
  const double * const r[3] = {&rotation[0], &rotation[3], &rotation[6]};
  Payload all{mass, position, {}};
  std::size_t entry = 0;
  for (std::size_t i = 0; i < 3; ++i) {
    for (std::size_t k = 0; k < 3; ++k) { all.center[i] += r[i][k] * center[k]; }
    for (std::size_t j = i; j < 3; ++j, ++entry) {
      for (std::size_t k = 0; k < 9; ++k) { all.moments[entry] += r[i][k / 3] * own[k / 3][k % 3] * r[j][k % 3]; }
    }
  }
  return all;
}
}  // namespace dynamics_controllers
