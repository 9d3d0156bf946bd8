// calls_in_update LIBRARY: counts what FeedforwardLaw::update calls of the allocator, of locks and of files.
// Prints one line for each law, and first one of calls made on purpose, which shows that they are counted.
#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cmath>
#include <cstdio>
#include <limits>
#include <mutex>
#include <string>

#include "dynamics_controllers/feedforward_law.hpp"

namespace dc = dynamics_controllers;
static bool is_counting = false;
static unsigned long allocations = 0, locks = 0, writes = 0;

// Take the place of the C library's functions in the whole process
extern "C" {
void * __libc_malloc(std::size_t);
void * __libc_calloc(std::size_t, std::size_t);
void * __libc_realloc(void *, std::size_t);
void * __libc_memalign(std::size_t, std::size_t);
void __libc_free(void *);

void * malloc(std::size_t size) { return allocations += is_counting, __libc_malloc(size); }
void * calloc(std::size_t n, std::size_t size) { return allocations += is_counting, __libc_calloc(n, size); }
void * realloc(void * old, std::size_t size) { return allocations += is_counting, __libc_realloc(old, size); }
void * aligned_alloc(std::size_t to, std::size_t size) { return allocations += is_counting, __libc_memalign(to, size); }
void free(void * old) { allocations += is_counting && old, __libc_free(old); }

int pthread_mutex_lock(pthread_mutex_t * mutex) noexcept
{
  static const auto next = reinterpret_cast<int (*)(pthread_mutex_t *)>(dlsym(RTLD_NEXT, "pthread_mutex_lock"));
  return locks += is_counting, next(mutex);
}

ssize_t write(int file, const void * data, std::size_t size)
{
  static const auto next = reinterpret_cast<ssize_t (*)(int, const void *, std::size_t)>(dlsym(RTLD_NEXT, "write"));
  return writes += is_counting, next(file, data, size);
}
}

static void report(const char * name, unsigned long updates)
{
  is_counting = false;
  std::printf("%s %lu %lu %lu %lu\n", name, updates, allocations, locks, writes);
  std::fflush(stdout);
  allocations = locks = writes = 0;
}

int main(int, char ** words)
{
  const double nan = std::numeric_limits<double>::quiet_NaN();
  std::mutex mutex;
  is_counting = true;
  { std::lock_guard<std::mutex> guard(mutex); }
  delete new std::string(100, 'x');
  (void)!write(STDERR_FILENO, "", 0);
  report("on_purpose", 0);

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
