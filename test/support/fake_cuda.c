/* A libcuda.so.1 for tests: the calls that the backend makes, checked, on the memory of this machine.

   Compiled against NVIDIA's cuda.h, so that every signature is the real one. What is given to a stream is done
   as late as the driver may do it: when somebody waits for it. So a buffer that is used again, or read, too
   early shows in results. Kernels are run by a callback. New memory of the device is NaN, between marks that
   nobody may touch. A call can be made to fail, once or with all that follow it. */
#include <cuda.h>
#include <elf.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MOST = 4096, MARK = 64, PARAMETERS = 256, FUNCTIONS = 4 };
typedef enum { NOTHING, MEMORY, PINNED, STREAM, EVENT, MODULE } Kind;
typedef enum { COPY, LAUNCH, WAIT } Work;
typedef int (*Launch)(const void *image, size_t size, const char *name, unsigned blocks, unsigned threads,
                      void **parameters);
typedef int (*Describe)(const void *image, size_t size, const char *name, int *sizes);

struct CUctx_st { int retained; };
struct CUevent_st { CUstream stream; long number; };
struct CUfunc_st { CUmodule module; char name[64]; int parameters, sizes[PARAMETERS]; };
struct CUmod_st { size_t size; char *image; int used; struct CUfunc_st functions[FUNCTIONS]; };
typedef struct {
  Work kind;
  void *to;
  const void *from;
  size_t size;
  CUfunction function;
  unsigned blocks, threads;
  uint64_t values[PARAMETERS];
  CUstream other;
  long number;
} Item;
struct CUstream_st { Item *items; long given, done, room; };
typedef struct { Kind kind; uint64_t at; size_t size; } Held;

static pthread_mutex_t mutex = PTHREAD_RECURSIVE_MUTEX_INITIALIZER_NP;
static Held held[MOST];
static struct CUctx_st context;
static struct CUstream_st legacy, per_thread;
static _Thread_local int depth; /* of this thread's stack of contexts */
static int initialised, version = 13000, devices = 1, capability = 90;
static size_t room = (size_t)1 << 33, taken;
static long calls, failing = -1;
static int failure, lasting, lost;
static Launch launch;
static Describe describe;
static char complaint[256];

static int refuse(int error, const char *what)
{
  snprintf(complaint, sizeof complaint, "%s", what);
  return error;
}

/* --- for tests ------------------------------------------------------------------------------------------ */

/* describe: of a kernel in an image how many bytes each parameter has, and how many there are; -1: no such. */
void fake_kernels(Describe its_parameters, Launch run_it)
{
  describe = its_parameters;
  launch = run_it;
}

void fake_device(int its_version, int number, int its_capability, size_t memory)
{
  version = its_version;
  devices = number;
  capability = its_capability;
  room = memory;
}

/* From now on the k-th call fails (0: the next one; -1: none), and all after it where that lasts. */
void fake_fail(long k, int error, int it_lasts)
{
  calls = 0;
  failing = k;
  failure = error;
  lasting = it_lasts;
  if (lost) { /* what was given to it is never done */
    legacy.done = legacy.given;
    per_thread.done = per_thread.given;
  }
  lost = 0;
}

long fake_calls(void) { return calls; }
const char *fake_complaint(void) { return complaint; }
int fake_retained(void) { return context.retained; }
int fake_depth(void) { return depth; }

/* The k-th allocation of device memory from number k on: its number, -1 for none. */
int fake_memory(int k, uint64_t *at, size_t *size)
{
  for (; k < MOST; ++k)
    if (held[k].kind == MEMORY) {
      *at = held[k].at;
      *size = held[k].size;
      return k;
    }
  return -1;
}

/* How many things of a kind are held, of all kinds for 0. */
int fake_held(int kind)
{
  int number = 0;
  for (int k = 0; k < MOST; ++k) number += kind ? held[k].kind == (Kind)kind : held[k].kind != NOTHING;
  return number;
}

/* --- every call: whether it fails, and what it needs ----------------------------------------------------- */

static int enter(int needs_context)
{
  pthread_mutex_lock(&mutex);
  const long number = calls++;
  complaint[0] = '\0';
  if (lost) return lost;
  if (failing >= 0 && number >= failing) {
    failing = -1;
    if (lasting) lost = failure;
    return failure;
  }
  if (!initialised) return CUDA_ERROR_NOT_INITIALIZED;
  if (needs_context && !depth) return refuse(CUDA_ERROR_INVALID_CONTEXT, "no context is current in this thread");
  return 0;
}

static CUresult leave(int error)
{
  pthread_mutex_unlock(&mutex);
  return (CUresult)error;
}

/* --- what is held ---------------------------------------------------------------------------------------- */

static Held *find(Kind kind, uint64_t at)
{
  for (int k = 0; k < MOST; ++k) {
    const int inside = kind == MEMORY && at > held[k].at && at < held[k].at + held[k].size;
    if (held[k].kind == kind && (held[k].at == at || inside)) return held + k;
  }
  return NULL;
}

static int hold(Kind kind, const void *at, size_t size)
{
  for (int k = 0; k < MOST; ++k)
    if (held[k].kind == NOTHING) {
      held[k] = (Held){kind, (uint64_t)(uintptr_t)at, size};
      return 0;
    }
  return refuse(CUDA_ERROR_OUT_OF_MEMORY, "the fake has no room for more handles");
}

/* gone: whether it is held no more; a lost device takes everything back, and says its error all the same. */
static int drop(int error, Kind kind, const void *at, int *gone)
{
  *gone = 0;
  if (error && !lost) return error;
  Held *found = find(kind, (uint64_t)(uintptr_t)at);
  if (!found || found->at != (uint64_t)(uintptr_t)at)
    return error ? error : refuse(CUDA_ERROR_INVALID_VALUE, "given back, but not held");
  *gone = 1;
  found->kind = NOTHING;
  return error;
}

static int whole(const Held *block)
{
  const unsigned char *first = (const unsigned char *)(uintptr_t)block->at - MARK;
  for (size_t k = 0; k < MARK; ++k)
    if (first[k] != 0xab || first[MARK + block->size + k] != 0xab)
      return refuse(CUDA_ERROR_ILLEGAL_ADDRESS, "a kernel wrote outside of the memory of the device");
  return 0;
}

static int within(uint64_t at, size_t size)
{
  const Held *block = find(MEMORY, at);
  if (block && at + size <= block->at + block->size) return 0;
  return refuse(CUDA_ERROR_INVALID_VALUE, "a copy outside of the memory of the device");
}

/* --- streams --------------------------------------------------------------------------------------------- */

static CUstream stream_of(CUstream named)
{
  if (!named || named == CU_STREAM_LEGACY) return &legacy;
  if (named == CU_STREAM_PER_THREAD) return &per_thread;
  return find(STREAM, (uint64_t)(uintptr_t)named) ? named : NULL;
}

static int give(CUstream named, const Item *item)
{
  CUstream stream = stream_of(named);
  if (!stream) return refuse(CUDA_ERROR_INVALID_HANDLE, "no such stream");
  if (stream->given == stream->room) {
    stream->room = 2 * stream->room + 16;
    stream->items = realloc(stream->items, (size_t)stream->room * sizeof *item);
  }
  stream->items[stream->given++] = *item;
  return 0;
}

static int finish(CUstream stream, long number);

static int run(Item *item)
{
  if (item->kind == WAIT) return finish(item->other, item->number);
  if (item->kind == COPY) {
    memmove(item->to, item->from, item->size);
    return 0;
  }
  void *parameters[PARAMETERS];
  for (int k = 0; k < PARAMETERS; ++k) parameters[k] = item->values + k;
  const struct CUmod_st *module = item->function->module;
  if (!launch) return refuse(CUDA_ERROR_NOT_SUPPORTED, "nobody runs kernels here");
  int error = launch(module->image, module->size, item->function->name, item->blocks, item->threads, parameters);
  for (int k = 0; k < MOST && !error; ++k)
    if (held[k].kind == MEMORY) error = whole(held + k);
  return error;
}

/* Do the work of a stream up to a number. The error of a kernel stays. */
static int finish(CUstream stream, long number)
{
  int error = 0;
  while (stream->done < number && !error) {
    Item item = stream->items[stream->done++];
    error = run(&item);
  }
  if (error) lost = error;
  return error;
}

static int finish_all(void)
{
  int error = finish(&legacy, legacy.given);
  if (!error) error = finish(&per_thread, per_thread.given);
  for (int k = 0; k < MOST && !error; ++k)
    if (held[k].kind == STREAM) {
      CUstream stream = (CUstream)(uintptr_t)held[k].at;
      error = finish(stream, stream->given);
    }
  return error;
}

/* --- device and context ---------------------------------------------------------------------------------- */

CUresult CUDAAPI cuInit(unsigned flags)
{
  initialised = 1;
  const int error = enter(0);
  if (error) initialised = 0;
  return leave(error ? error : flags ? CUDA_ERROR_INVALID_VALUE : devices ? 0 : CUDA_ERROR_NO_DEVICE);
}

CUresult CUDAAPI cuDriverGetVersion(int *found)
{
  *found = version;
  return leave(enter(0));
}

CUresult CUDAAPI cuDeviceGetCount(int *found)
{
  *found = devices;
  return leave(enter(0));
}

CUresult CUDAAPI cuDeviceGet(CUdevice *device, int ordinal)
{
  const int error = enter(0);
  *device = ordinal;
  return leave(error ? error : ordinal < devices ? 0 : CUDA_ERROR_INVALID_DEVICE);
}

CUresult CUDAAPI cuDeviceGetName(char *name, int size, CUdevice device)
{
  const int error = enter(0);
  snprintf(name, (size_t)size, "fake device %d", device);
  return leave(error);
}

CUresult CUDAAPI cuDeviceGetAttribute(int *found, CUdevice_attribute attribute, CUdevice device)
{
  const int error = enter(0);
  if (error || device) return leave(error ? error : CUDA_ERROR_INVALID_DEVICE);
  switch (attribute) {
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR: *found = capability / 10; break;
  case CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MINOR: *found = capability % 10; break;
  case CU_DEVICE_ATTRIBUTE_MULTIPROCESSOR_COUNT: *found = 2; break;
  default: return leave(refuse(CUDA_ERROR_INVALID_VALUE, "an attribute that nobody asked for so far"));
  }
  return leave(0);
}

CUresult CUDAAPI cuDevicePrimaryCtxRetain(CUcontext *found, CUdevice device)
{
  const int error = enter(0);
  if (!error) ++context.retained;
  *found = &context;
  return leave(error ? error : device ? CUDA_ERROR_INVALID_DEVICE : 0);
}

CUresult CUDAAPI cuDevicePrimaryCtxRelease(CUdevice device)
{
  int error = enter(0);
  if (!error && !context.retained) error = refuse(CUDA_ERROR_INVALID_CONTEXT, "released more often than retained");
  if ((!error || lost) && context.retained) --context.retained;
  return leave(error ? error : device ? CUDA_ERROR_INVALID_DEVICE : 0);
}

CUresult CUDAAPI cuCtxPushCurrent(CUcontext given)
{
  int error = enter(0);
  if (!error && (given != &context || !context.retained)) error = refuse(CUDA_ERROR_INVALID_CONTEXT, "no such context");
  if (!error) ++depth;
  return leave(error);
}

CUresult CUDAAPI cuCtxPopCurrent(CUcontext *found)
{
  const int error = enter(1);
  *found = &context;
  if ((!error || lost) && depth) --depth;
  return leave(error);
}

/* --- memory ---------------------------------------------------------------------------------------------- */

CUresult CUDAAPI cuMemAlloc(CUdeviceptr *found, size_t size)
{
  int error = enter(1);
  if (!error && !size) error = refuse(CUDA_ERROR_INVALID_VALUE, "no memory is asked for");
  if (!error && size > room - taken) error = CUDA_ERROR_OUT_OF_MEMORY;
  if (error) return leave(error);
  unsigned char *block = aligned_alloc(256, (size + 2 * 256 + 255) / 256 * 256);
  memset(block + 256 - MARK, 0xab, size + 2 * MARK);
  memset(block + 256, 0xff, size);
  *found = (CUdeviceptr)(uintptr_t)(block + 256);
  taken += size;
  return leave(hold(MEMORY, block + 256, size));
}

CUresult CUDAAPI cuMemFree(CUdeviceptr at)
{
  int error = enter(1);
  if (!error) error = finish_all();
  unsigned char *address = (unsigned char *)(uintptr_t)at;
  const Held *block = find(MEMORY, at);
  const size_t size = block ? block->size : 0;
  int gone;
  error = drop(error, MEMORY, address, &gone);
  if (gone) {
    taken -= size;
    free(address - 256);
  }
  return leave(error);
}

CUresult CUDAAPI cuMemHostAlloc(void **found, size_t size, unsigned flags)
{
  int error = enter(1);
  if (!error && (!size || flags)) error = refuse(CUDA_ERROR_INVALID_VALUE, "no memory is asked for, or with flags");
  if (error) return leave(error);
  *found = memset(malloc(size), 0xff, size);
  return leave(hold(PINNED, *found, size));
}

CUresult CUDAAPI cuMemFreeHost(void *at)
{
  int error = enter(1);
  if (!error) error = finish_all();
  int gone;
  error = drop(error, PINNED, at, &gone);
  if (gone) free(at);
  return leave(error);
}

CUresult CUDAAPI cuMemcpyHtoDAsync(CUdeviceptr to, const void *from, size_t size, CUstream stream)
{
  int error = enter(1);
  if (!error) error = within(to, size);
  const Item item = {.kind = COPY, .to = (void *)(uintptr_t)to, .from = from, .size = size};
  return leave(error ? error : give(stream, &item));
}

CUresult CUDAAPI cuMemcpyDtoHAsync(void *to, CUdeviceptr from, size_t size, CUstream stream)
{
  int error = enter(1);
  if (!error) error = within(from, size);
  const Item item = {.kind = COPY, .to = to, .from = (const void *)(uintptr_t)from, .size = size};
  return leave(error ? error : give(stream, &item));
}

CUresult CUDAAPI cuPointerGetAttribute(void *found, CUpointer_attribute attribute, CUdeviceptr at)
{
  int error = enter(0);
  if (!error && (attribute != CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL || !find(MEMORY, at))) error = CUDA_ERROR_INVALID_VALUE;
  if (!error) *(int *)found = 0;
  return leave(error);
}

/* --- streams and events ---------------------------------------------------------------------------------- */

CUresult CUDAAPI cuStreamCreate(CUstream *found, unsigned flags)
{
  const int error = enter(1);
  if (error) return leave(error);
  *found = calloc(1, sizeof **found);
  return leave(flags > CU_STREAM_NON_BLOCKING ? CUDA_ERROR_INVALID_VALUE : hold(STREAM, *found, 0));
}

CUresult CUDAAPI cuStreamDestroy(CUstream stream)
{
  int error = enter(1);
  if (!error && find(STREAM, (uint64_t)(uintptr_t)stream)) error = finish(stream, stream->given);
  int gone; /* events may refer to it: its memory is not freed */
  return leave(drop(error, STREAM, stream, &gone));
}

CUresult CUDAAPI cuStreamSynchronize(CUstream named)
{
  const int error = enter(1);
  CUstream stream = stream_of(named);
  if (error || !stream) return leave(error ? error : refuse(CUDA_ERROR_INVALID_HANDLE, "no such stream"));
  return leave(finish(stream, stream->given));
}

CUresult CUDAAPI cuEventCreate(CUevent *found, unsigned flags)
{
  const int error = enter(1);
  if (error || flags > CU_EVENT_DISABLE_TIMING) return leave(error ? error : CUDA_ERROR_INVALID_VALUE);
  *found = calloc(1, sizeof **found);
  return leave(hold(EVENT, *found, 0));
}

CUresult CUDAAPI cuEventDestroy(CUevent event)
{
  int gone;
  const int error = drop(enter(1), EVENT, event, &gone);
  if (gone) free(event);
  return leave(error);
}

CUresult CUDAAPI cuEventRecord(CUevent event, CUstream named)
{
  int error = enter(1);
  CUstream stream = stream_of(named);
  if (!error && (!stream || !find(EVENT, (uint64_t)(uintptr_t)event))) error = CUDA_ERROR_INVALID_HANDLE;
  if (!error) *event = (struct CUevent_st){stream, stream->given};
  return leave(error);
}

/* Half a millisecond for everything that is given to the stream between them. */
CUresult CUDAAPI cuEventElapsedTime(float *found, CUevent begin, CUevent end)
{
  int error = enter(1);
  const int known = find(EVENT, (uint64_t)(uintptr_t)begin) && find(EVENT, (uint64_t)(uintptr_t)end);
  if (!error && !(known && begin->stream && begin->stream == end->stream)) error = CUDA_ERROR_INVALID_HANDLE;
  if (!error && end->stream->done < end->number) error = CUDA_ERROR_NOT_READY;
  if (!error) *found = 0.5f * (float)(end->number - begin->number);
  return leave(error);
}

CUresult CUDAAPI cuStreamWaitEvent(CUstream named, CUevent event, unsigned flags)
{
  int error = enter(1);
  if (!error && (flags || !find(EVENT, (uint64_t)(uintptr_t)event))) error = CUDA_ERROR_INVALID_HANDLE;
  if (error || !event->stream) return leave(error);
  const Item item = {.kind = WAIT, .other = event->stream, .number = event->number};
  return leave(give(named, &item));
}

/* --- kernels --------------------------------------------------------------------------------------------- */

/* Of a cubin as its head says, of PTX to its end; 0 for neither. */
static size_t size_of(const char *image)
{
  if (!strncmp(image, "//", 2)) return strlen(image) + 1;
  if (memcmp(image, "\x7f" "ELF", 4)) return 0;
  Elf64_Ehdr head;
  memcpy(&head, image, sizeof head);
  const size_t sections = head.e_shoff + (size_t)head.e_shentsize * head.e_shnum;
  const size_t segments = head.e_phoff + (size_t)head.e_phentsize * head.e_phnum;
  return sections > segments ? sections : segments;
}

CUresult CUDAAPI cuModuleLoadData(CUmodule *found, const void *image)
{
  int error = enter(1);
  const size_t size = error ? 0 : size_of(image);
  if (error || !size) return leave(error ? error : refuse(CUDA_ERROR_INVALID_IMAGE, "neither a cubin nor PTX"));
  CUmodule module = calloc(1, sizeof *module);
  module->size = size;
  module->image = memcpy(malloc(size), image, size);
  *found = module;
  return leave(hold(MODULE, module, 0));
}

CUresult CUDAAPI cuModuleUnload(CUmodule module)
{
  int error = enter(1);
  if (!error) error = finish_all();
  int gone;
  error = drop(error, MODULE, module, &gone);
  if (gone) {
    free(module->image);
    free(module);
  }
  return leave(error);
}

CUresult CUDAAPI cuModuleGetFunction(CUfunction *found, CUmodule module, const char *name)
{
  int error = enter(1);
  if (!error && !find(MODULE, (uint64_t)(uintptr_t)module)) error = CUDA_ERROR_INVALID_HANDLE;
  if (!error && (module->used == FUNCTIONS || !memmem(module->image, module->size, name, strlen(name))))
    error = refuse(CUDA_ERROR_NOT_FOUND, "no such kernel in the image");
  if (error) return leave(error);
  *found = module->functions + module->used++;
  (*found)->module = module;
  snprintf((*found)->name, sizeof (*found)->name, "%s", name);
  if (describe) (*found)->parameters = describe(module->image, module->size, name, (*found)->sizes);
  return leave((*found)->parameters < 0 ? refuse(CUDA_ERROR_NOT_FOUND, "no such kernel in the image") : 0);
}

CUresult CUDAAPI cuLaunchKernel(CUfunction function, unsigned blocks, unsigned y, unsigned z, unsigned threads,
                                unsigned threads_y, unsigned threads_z, unsigned shared, CUstream stream,
                                void **parameters, void **extra)
{
  int error = enter(1);
  const int flat = y == 1 && z == 1 && threads_y == 1 && threads_z == 1;
  if (!error && (!blocks || !threads || threads > 1024 || blocks > 0x7fffffff || !flat || extra || shared > 48 * 1024))
    error = refuse(CUDA_ERROR_INVALID_VALUE, "dimensions that no device has");
  if (!error && !find(MODULE, (uint64_t)(uintptr_t)function->module)) error = CUDA_ERROR_INVALID_HANDLE;
  if (error) return leave(error);
  Item item = {.kind = LAUNCH, .function = function, .blocks = blocks, .threads = threads};
  for (int k = 0; k < function->parameters; ++k)
    memcpy(item.values + k, parameters[k], (size_t)function->sizes[k]);
  return leave(give(stream, &item));
}

/* What NVRTC asks of a driver that it finds; that there is none it takes well. */
CUresult CUDAAPI cuGetExportTable(const void **table, const CUuuid *which)
{
  (void)which;
  *table = NULL;
  return CUDA_ERROR_NOT_FOUND;
}

CUresult CUDAAPI cuGetErrorName(CUresult error, const char **name)
{
  *name = error == CUDA_ERROR_OUT_OF_MEMORY ? "CUDA_ERROR_OUT_OF_MEMORY" : "CUDA_ERROR_FAKED";
  return CUDA_SUCCESS;
}

CUresult CUDAAPI cuGetErrorString(CUresult error, const char **meaning)
{
  *meaning = error == CUDA_ERROR_OUT_OF_MEMORY ? "out of memory" : complaint[0] ? complaint : "made to fail";
  return CUDA_SUCCESS;
}
