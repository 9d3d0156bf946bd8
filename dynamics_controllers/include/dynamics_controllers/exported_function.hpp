// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
// Functions of libraries that `dynamics export --target shared` writes, without ROS.
#pragma once

#include <array>
#include <cstddef>
#include <memory>
#include <string>
#include <vector>

namespace dynamics_controllers
{
/// An input or output.
struct Argument
{
  std::string name;
  std::size_t size;  // numbers; dense, column-major
};

/// A rigid body in a frame: mass in kg, center of mass in m, and moments xx, xy, xz, yy, yz, zz about it.
struct Payload
{
  double mass;
  std::array<double, 3> center;
  std::array<double, 6> moments;
};

/// A function of an exported library. An object belongs to one thread; copies share the library.
class ExportedFunction
{
public:
  ExportedFunction() = default;

  /// Load `<prefix>_<function>` of `.../lib<prefix>.so`. Throws std::runtime_error, naming file and cause.
  ExportedFunction(const std::string & library, const std::string & function);

  const std::string & path() const { return path_; }
  const std::string & name() const { return name_; }
  const std::vector<Argument> & inputs() const { return inputs_; }
  const std::vector<Argument> & outputs() const { return outputs_; }
  const std::vector<std::string> & joints() const { return joints_; }  // in the order of qd
  const std::string & urdf_hash() const { return urdf_hash_; }         // SHA-256, hexadecimal
  const std::string & version() const { return version_; }

  /// Names of the entries of q, and a value of q, of a robot with closed loops. Empty without.
  const std::vector<std::string> & positions() const { return positions_; }
  const std::vector<double> & closed_position() const { return closed_position_; }

  /// Links and values of the input `inertia`, ten numbers for each body. Empty without this input.
  const std::vector<std::string> & bodies() const { return bodies_; }
  const std::vector<double> & inertia() const { return inertia_; }

  /// Add a payload, in the axes of a body's link, to values of the input `inertia`.
  void add_payload(std::vector<double> & inertia, std::size_t body, const Payload & payload) const;

  /// The place of an input or output. Throws std::runtime_error if it is missing or of another size.
  std::size_t input(const std::string & name, std::size_t size) const;
  std::size_t output(const std::string & name, std::size_t size) const;

  // Where the next call reads an input and writes an output
  void read(std::size_t input, const double * values) noexcept { arg_[input] = values; }
  void write(std::size_t output, double * values) noexcept { res_[output] = values; }
  /// Compute. False at a singular state: the outputs are not written.
  bool operator()() noexcept { return call_(arg_.data(), res_.data(), iw_.data(), w_.data(), 0) == 0; }

private:
  using Call = int (*)(const double **, double **, long long *, double *, int);

  using AddPayload = void (*)(double *, int, double, const double *, const double *);

  template <typename Type>
  Type symbol(const std::string & suffix) const;
  std::vector<Argument> arguments(const std::string & side) const;
  std::size_t place(
    const std::vector<Argument> & arguments, const std::string & name, std::size_t size) const;

  std::shared_ptr<void> library_;
  std::string path_, name_, urdf_hash_, version_;
  std::vector<Argument> inputs_, outputs_;
  std::vector<std::string> joints_, positions_, bodies_;
  std::vector<double> closed_position_, inertia_;
  Call call_ = nullptr;
  AddPayload add_payload_ = nullptr;
  std::vector<const double *> arg_;
  std::vector<double *> res_;
  std::vector<long long> iw_;
  std::vector<double> w_;
};

/// Text in quotes, with control characters and quotes replaced by '?': names come from files.
std::string in_quotes(const std::string & text);
}  // namespace dynamics_controllers
