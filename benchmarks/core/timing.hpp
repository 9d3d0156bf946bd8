// Medians of thread CPU time in us per call.
#pragma once
#include <algorithm>
#include <ctime>
#include <vector>

constexpr int STATES = 256, BATCHES = 200;

static double now_us()
{
  timespec t;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &t);
  return t.tv_sec * 1e6 + t.tv_nsec * 1e-3;
}

template <class Call>
static double median_us(Call call)
{
  std::vector<double> times;
  for (int batch = 0; batch < BATCHES; ++batch) {
    const double begin = now_us();
    for (int k = 0; k < STATES; ++k) call(k);
    times.push_back((now_us() - begin) / STATES);
  }
  std::nth_element(times.begin(), times.begin() + BATCHES / 2, times.end());
  return times[BATCHES / 2];
}
