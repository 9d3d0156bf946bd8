// Copyright 2026 dynamics_node founders. SPDX-License-Identifier: Apache-2.0
#include "dynamics_controllers/exported_function.hpp"

#include <dlfcn.h>

#include <algorithm>
#include <filesystem>
#include <stdexcept>

namespace dynamics_controllers
{
namespace
{
/// The prefix of lib<prefix>.so.
std::string prefix_of(const std::filesystem::path & library)
{
  const std::string stem = library.stem().string();
  if (stem.rfind("lib", 0) != 0 || stem.size() == 3 || library.extension() != ".so") {
    throw std::runtime_error(
      "library " + in_quotes(library.string()) +
      ": the file must be named lib<prefix>.so, as `dynamics export --target shared` writes it");
  }
  return stem.substr(3);
}

std::vector<std::string> names(const char * (*name_of)(int), std::size_t count)
{
  std::vector<std::string> all;
  for (std::size_t k = 0; k < count; ++k) {
    const char * name = name_of(static_cast<int>(k));
    all.emplace_back(name ? name : "");
  }
  return all;
}
}  // namespace

std::string in_quotes(const std::string & text)
{
  std::string plain = text;
  std::replace_if(
    plain.begin(), plain.end(), [](char c) { return c < ' ' || c > '~' || c == '\''; }, '?');
  return "'" + plain + "'";
}

ExportedFunction::ExportedFunction(const std::string & library, const std::string & function)
{
  const auto file = std::filesystem::absolute(library);  // dlopen would search other folders for a bare name
  path_ = file.string();
  name_ = prefix_of(file) + "_" + function;
  void * handle = dlopen(path_.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (!handle) {
    throw std::runtime_error("library " + in_quotes(path_) + " does not load: " + dlerror());
  }
  library_ = std::shared_ptr<void>(handle, dlclose);

  call_ = symbol<Call>("_casadi");
  inputs_ = arguments("in");
  outputs_ = arguments("out");
  long long sz_arg = 0, sz_res = 0, sz_iw = 0, sz_w = 0;
  symbol<int (*)(long long *, long long *, long long *, long long *)>("_casadi_work")(
    &sz_arg, &sz_res, &sz_iw, &sz_w);
  arg_.resize(std::max(inputs_.size(), static_cast<std::size_t>(sz_arg)));
  res_.resize(std::max(outputs_.size(), static_cast<std::size_t>(sz_res)));
  iw_.resize(static_cast<std::size_t>(sz_iw));
  w_.resize(static_cast<std::size_t>(sz_w));

  const int count = symbol<int (*)()>("_n_joints")();
  joints_ = names(symbol<const char * (*)(int)>("_joint_name"), static_cast<std::size_t>(count));
  urdf_hash_ = symbol<const char * (*)()>("_urdf_hash")();
  version_ = symbol<const char * (*)()>("_version")();
  const auto find = [this](const char * name) {
    return std::find_if(inputs_.begin(), inputs_.end(), [name](const Argument & input) { return input.name == name; });
  };
  const auto q = find("q");
  if (q != inputs_.end() && dlsym(library_.get(), (name_ + "_closed_position").c_str())) {
    positions_ = names(symbol<const char * (*)(int)>("_position_name"), q->size);
    const double * values = symbol<const double * (*)()>("_closed_position")();
    closed_position_.assign(values, values + q->size);
  }
  const auto inertia = find("inertia");
  if (inertia != inputs_.end()) {
    bodies_ = names(symbol<const char * (*)(int)>("_body_name"), inertia->size / 10);
    const double * values = symbol<const double * (*)()>("_inertia")();
    inertia_.assign(values, values + inertia->size);
    add_payload_ = symbol<AddPayload>("_add_payload");
  }
}

template <typename Type>
Type ExportedFunction::symbol(const std::string & suffix) const
{
  void * address = dlsym(library_.get(), (name_ + suffix).c_str());
  if (!address) {
    throw std::runtime_error(
      "library " + in_quotes(path_) + " has no symbol " + in_quotes(name_ + suffix) +
      ": write it by `dynamics export --target shared`, and leave its name as it is");
  }
  return reinterpret_cast<Type>(address);
}

std::vector<Argument> ExportedFunction::arguments(const std::string & side) const
{
  const auto count = symbol<long long (*)()>("_casadi_n_" + side)();
  const auto name = symbol<const char * (*)(long long)>("_casadi_name_" + side);
  const auto sparsity = symbol<const long long * (*)(long long)>("_casadi_sparsity_" + side);
  std::vector<Argument> all;
  for (long long k = 0; k < count; ++k) {
    const long long * shape = sparsity(k);  // rows, columns, then 1 if dense
    all.push_back({name(k), static_cast<std::size_t>(shape[0] * shape[1])});
    if (shape[2] != 1) {
      throw std::runtime_error(
        "library " + in_quotes(path_) + ": " + in_quotes(all.back().name) + " of " + name_ +
        " is sparse; this package reads dense arguments");
    }
  }
  return all;
}

std::size_t ExportedFunction::place(
  const std::vector<Argument> & arguments, const std::string & name, std::size_t size) const
{
  for (std::size_t k = 0; k < arguments.size(); ++k) {
    if (arguments[k].name != name) { continue; }
    if (arguments[k].size == size) { return k; }
    throw std::runtime_error(
      name_ + ": " + in_quotes(name) + " has " + std::to_string(arguments[k].size) + " numbers, not " +
      std::to_string(size));
  }
  throw std::runtime_error(name_ + " has no argument " + in_quotes(name));
}

void ExportedFunction::add_payload(
  std::vector<double> & inertia, std::size_t body, const Payload & payload) const
{
  const auto & [xx, xy, xz, yy, yz, zz] = payload.moments;
  const double moments[] = {xx, xy, yy, xz, yz, zz};
  add_payload_(inertia.data(), static_cast<int>(body), payload.mass, payload.center.data(), moments);
}

std::size_t ExportedFunction::input(const std::string & name, std::size_t size) const
{
  return place(inputs_, name, size);
}

std::size_t ExportedFunction::output(const std::string & name, std::size_t size) const
{
  return place(outputs_, name, size);
}
}  // namespace dynamics_controllers
