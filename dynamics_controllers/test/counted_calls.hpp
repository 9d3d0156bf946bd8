// Counts calls of the allocator, of locks and of files: these functions take the place of those of the C library in
// the whole process. To be included by one source of a program.
#pragma once

#include <dlfcn.h>
#include <pthread.h>
#include <unistd.h>

#include <cstddef>
#include <cstdio>
#include <mutex>
#include <string>

static thread_local bool is_counting = false;
static unsigned long allocations = 0, locks = 0, writes = 0;

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

/// Prints the counts of calls made on purpose, which shows that they are counted.
static void report_calls_on_purpose()
{
  std::mutex mutex;
  is_counting = true;
  { std::lock_guard<std::mutex> guard(mutex); }
  delete new std::string(100, 'x');
  (void)!write(STDERR_FILENO, "", 0);
  report("on_purpose", 0);
}
