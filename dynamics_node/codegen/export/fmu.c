/* FMI 3.0, co-simulation, of $name: made by dynamics_node $version. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include "$name.h"

#if defined __GNUC__
#pragma GCC diagnostic ignored "-Wunused-parameter" /* the interface has many that a block without states ignores */
#endif
#if defined _WIN32
#define EXPORT __declspec(dllexport)
#else
#define EXPORT __attribute__((visibility("default")))
#endif

enum { OK = 0, DISCARD = 2, ERROR = 3, INPUTS = $inputs, OUTPUTS = $outputs, VARIABLES = INPUTS + OUTPUTS };
enum { SIZE = $size };
typedef struct {
  double time, values[SIZE];
} Instance;
static const size_t begin[] = {$begin}; /* of the variables in `values`, and the end */
static const double start[] = {$start};

static void reset(Instance *own)
{
  memset(own, 0, sizeof *own);
  memcpy(own->values, start, sizeof start);
}

/* DISCARD at a singular state: the importer may go on with other inputs. */
static int compute(Instance *own)
{
  $call
  return OK;
}

EXPORT const char *fmi3GetVersion(void) { return "3.0"; }

EXPORT int fmi3SetDebugLogging(void *instance, _Bool on, size_t count, const char *const names[])
{
  return OK;
}

EXPORT void *fmi3InstantiateCoSimulation(const char *name, const char *token, const char *resources, _Bool visible,
  _Bool logging, _Bool events, _Bool early, const uint32_t required[], size_t count, void *environment,
  void (*log)(void *, int, const char *, const char *), void *update)
{
  if (token == NULL || strcmp(token, ${name}_hash()) != 0) {
    if (log) log(environment, ERROR, "error", "the instantiation token is that of another model");
    return NULL;
  }
  Instance *const own = malloc(sizeof *own);
  if (own) reset(own);
  return own;
}

EXPORT void *fmi3InstantiateModelExchange(const char *name, const char *token, const char *resources, _Bool visible,
  _Bool logging, void *environment, void (*log)(void *, int, const char *, const char *))
{
  return NULL;
}

EXPORT void fmi3FreeInstance(void *instance) { free(instance); }

EXPORT int fmi3EnterInitializationMode(void *instance, _Bool defined, double tolerance, double begins, _Bool ends,
  double stop)
{
  ((Instance *)instance)->time = begins;
  return OK;
}

EXPORT int fmi3ExitInitializationMode(void *instance) { return OK; }
EXPORT int fmi3EnterEventMode(void *instance) { return OK; }
EXPORT int fmi3EnterStepMode(void *instance) { return OK; }
EXPORT int fmi3EnterConfigurationMode(void *instance) { return OK; }
EXPORT int fmi3ExitConfigurationMode(void *instance) { return OK; }
EXPORT int fmi3Terminate(void *instance) { return OK; }
EXPORT int fmi3Reset(void *instance) { reset(instance); return OK; }

EXPORT int fmi3SetFloat64(void *instance, const uint32_t variables[], size_t count, const double values[], size_t size)
{
  size_t at = 0;
  for (size_t k = 0; k < count; ++k) {
    const uint32_t n = variables[k] - 1;
    if (n >= INPUTS || at + begin[n + 1] - begin[n] > size) return ERROR;
    memcpy(((Instance *)instance)->values + begin[n], values + at, (begin[n + 1] - begin[n]) * sizeof *values);
    at += begin[n + 1] - begin[n];
  }
  return OK;
}

EXPORT int fmi3GetFloat64(void *instance, const uint32_t variables[], size_t count, double values[], size_t size)
{
  Instance *const own = instance;
  size_t at = 0;
  int computed = 0;
  for (size_t k = 0; k < count; ++k) {
    if (variables[k] == 0) {
      if (at >= size) return ERROR;
      values[at++] = own->time;
      continue;
    }
    const uint32_t n = variables[k] - 1;
    if (n >= VARIABLES || at + begin[n + 1] - begin[n] > size) return ERROR;
    if (n >= INPUTS && !computed++ && compute(own) != OK) return DISCARD;
    memcpy(values + at, own->values + begin[n], (begin[n + 1] - begin[n]) * sizeof *values);
    at += begin[n + 1] - begin[n];
  }
  return OK;
}

EXPORT int fmi3DoStep(void *instance, double now, double step, _Bool final, _Bool *event, _Bool *terminate, _Bool *early,
  double *last)
{
  Instance *const own = instance;
  own->time = now + step;
  *event = *terminate = *early = 0;
  *last = own->time;
  return compute(own);
}

/* There are no variables of other types. */
#define NONE(TYPE, KIND) \
  EXPORT int fmi3Get##KIND(void *instance, const uint32_t v[], size_t n, TYPE values[], size_t size) \
  { return n ? ERROR : OK; } \
  EXPORT int fmi3Set##KIND(void *instance, const uint32_t v[], size_t n, const TYPE values[], size_t size) \
  { return n ? ERROR : OK; }
NONE(float, Float32)
NONE(int8_t, Int8)
NONE(uint8_t, UInt8)
NONE(int16_t, Int16)
NONE(uint16_t, UInt16)
NONE(int32_t, Int32)
NONE(uint32_t, UInt32)
NONE(int64_t, Int64)
NONE(uint64_t, UInt64)
NONE(_Bool, Boolean)
NONE(char *, String)

/* Nor are there states to save, events, clocks or derivatives. */
#define ABSENT(NAME, ...) EXPORT int NAME(void *instance, __VA_ARGS__) { return ERROR; }
typedef const uint32_t *Names;
ABSENT(fmi3GetBinary, Names v, size_t n, size_t sizes[], const uint8_t *values[], size_t size)
ABSENT(fmi3SetBinary, Names v, size_t n, const size_t sizes[], const uint8_t *const values[], size_t size)
ABSENT(fmi3GetClock, Names v, size_t n, _Bool values[])
ABSENT(fmi3SetClock, Names v, size_t n, const _Bool values[])
ABSENT(fmi3GetNumberOfVariableDependencies, uint32_t v, size_t *count)
ABSENT(fmi3GetVariableDependencies, uint32_t v, size_t a[], uint32_t on[], size_t b[], int kinds[], size_t count)
ABSENT(fmi3GetFMUState, void **state)
ABSENT(fmi3SetFMUState, void *state)
ABSENT(fmi3FreeFMUState, void **state)
ABSENT(fmi3SerializedFMUStateSize, void *state, size_t *size)
ABSENT(fmi3SerializeFMUState, void *state, uint8_t bytes[], size_t size)
ABSENT(fmi3DeserializeFMUState, const uint8_t bytes[], size_t size, void **state)
ABSENT(fmi3GetDirectionalDerivative, Names u, size_t n, Names v, size_t m, const double s[], size_t a, double r[],
  size_t b)
ABSENT(fmi3GetAdjointDerivative, Names u, size_t n, Names v, size_t m, const double s[], size_t a, double r[], size_t b)
ABSENT(fmi3GetIntervalDecimal, Names v, size_t n, double intervals[], int kinds[])
ABSENT(fmi3GetIntervalFraction, Names v, size_t n, uint64_t counters[], uint64_t resolutions[], int kinds[])
ABSENT(fmi3GetShiftDecimal, Names v, size_t n, double shifts[])
ABSENT(fmi3GetShiftFraction, Names v, size_t n, uint64_t counters[], uint64_t resolutions[])
ABSENT(fmi3SetIntervalDecimal, Names v, size_t n, const double intervals[])
ABSENT(fmi3SetIntervalFraction, Names v, size_t n, const uint64_t counters[], const uint64_t resolutions[])
ABSENT(fmi3SetShiftDecimal, Names v, size_t n, const double shifts[])
ABSENT(fmi3SetShiftFraction, Names v, size_t n, const uint64_t counters[], const uint64_t resolutions[])
ABSENT(fmi3UpdateDiscreteStates, _Bool *a, _Bool *b, _Bool *c, _Bool *d, _Bool *e, double *time)
ABSENT(fmi3CompletedIntegratorStep, _Bool fixed, _Bool *event, _Bool *terminate)
ABSENT(fmi3SetTime, double time)
ABSENT(fmi3SetContinuousStates, const double states[], size_t n)
ABSENT(fmi3GetContinuousStateDerivatives, double rates[], size_t n)
ABSENT(fmi3GetEventIndicators, double values[], size_t n)
ABSENT(fmi3GetContinuousStates, double states[], size_t n)
ABSENT(fmi3GetNominalsOfContinuousStates, double values[], size_t n)
ABSENT(fmi3GetNumberOfEventIndicators, size_t *n)
ABSENT(fmi3GetNumberOfContinuousStates, size_t *n)
ABSENT(fmi3GetOutputDerivatives, Names v, size_t n, const int32_t orders[], double values[], size_t size)
ABSENT(fmi3ActivateModelPartition, uint32_t clock, double time)
EXPORT int fmi3EvaluateDiscreteStates(void *instance) { return ERROR; }
EXPORT int fmi3EnterContinuousTimeMode(void *instance) { return ERROR; }

EXPORT void *fmi3InstantiateScheduledExecution(const char *name, const char *token, const char *resources,
  _Bool visible, _Bool logging, void *environment, void (*log)(void *, int, const char *, const char *), void *update,
  void (*lock)(void), void (*unlock)(void))
{
  return NULL;
}
