// calls_in_update LIBRARY: counts what FeedforwardLaw::update calls of the allocator, of locks and of files.
// Prints one line for each law, and first one of calls made on purpose.
#include <cmath>
#include <limits>

#include "counted_calls.hpp"
#include "dynamics_controllers/feedforward_law.hpp"

namespace dc = dynamics_controllers;

int main(int, char ** words)
{
  const double nan = std::numeric_limits<double>::quiet_NaN();
  report_calls_on_purpose();
  const char * const names[] = {"effort", "feedforward", "computed_torque"};
  for (int k = 0; k < 3; ++k) {
    const dc::ExportedFunction function(words[1], "inverse_dynamics");
    const std::size_t n = function.joints().size();
    dc::FeedforwardSettings settings{static_cast<dc::Law>(k), false, true, 0.05, {}};
    settings.joints.assign(n, {10.0, 1.0, 0.1, 0.1, 0.1, 0.5, true});
    dc::FeedforwardLaw law;
    law.configure(function, settings);
    std::vector<double> q(n), qd(n), a(n), b(n), c(n), tau(n), inertia = function.inertia();
    unsigned long updates = 0, statuses[3] = {0, 0, 0};
    for (int cycle = 0; cycle < 2000; ++cycle) {
      for (std::size_t i = 0; i < n; ++i) {  // every branch: references and states with and without NaN
        const double phase = 0.01 * cycle + static_cast<double>(i);
        q[i] = cycle % 100 > 80 ? nan : std::sin(phase);
        qd[i] = cycle % 100 == 50 ? nan : std::cos(phase);
        a[i] = cycle % 3 ? std::sin(phase + 0.1) : nan;
        b[i] = cycle % 5 ? std::cos(phase + 0.1) : nan;
        c[i] = cycle % 7 ? -std::sin(phase + 0.1) : nan;
      }
      if (!inertia.empty()) { law.set_inertia(inertia); }
      is_counting = true;
      const auto status = law.update(q.data(), qd.data(), {a.data(), a.data(), b.data(), c.data()}, 0.01, tau.data());
      is_counting = false;
      ++statuses[static_cast<int>(status)];
      ++updates;
    }
    if (!statuses[0] || !statuses[1] || !statuses[2] || !law.limited_torques) { return 2; }  // a branch is missing
    report(names[k], updates);
  }
  return 0;
}
