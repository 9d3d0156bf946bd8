/* The Program as builtin functions of Python: solve(input, ..., output, ...) on arrays of one state; solve_new(class,
   input, ...), which makes its results; solve_rows(count, input, ..., output, ...) over the states of a small batch.

   `solve` returns None when it has written the outputs. It returns False, having written nothing that counts, when an
   argument is not a C-contiguous float64 array of the right shape, or anything in or out is not finite, or a
   quaternion is not of unit length, or the last output, kept here, is beyond its limits: finding the words for that is
   Python's business.

   `self` is a capsule that holds the address of the parameters, the last inputs of the Program. */
extern PyObject *PyBool_FromLong(long);
extern PyObject *PyLong_FromLong(long);
extern long PyLong_AsLong(PyObject *);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);
extern PyObject *PyTuple_New(ssize_t);
extern int PyTuple_SetItem(PyObject *, ssize_t, PyObject *);
extern PyObject *PyType_GenericAlloc(PyObject *, ssize_t);
extern PyObject PyTuple_Type;
extern PyObject *PyObject_CallObject(PyObject *, PyObject *);
extern void *PyCapsule_GetPointer(PyObject *, const char *);
extern PyObject _Py_NoneStruct;
extern void Py_IncRef(PyObject *);
extern void Py_DecRef(PyObject *);
enum { SHARED = 16 };
#define PADDED(size) (((size) / 8 + 1) * 8)
#if 8 * PADDED(INPUT_SIZE) > STACK_BYTES || 8 * PADDED(OUTPUT_SIZE) > STACK_BYTES
#define MEMORY static _Thread_local /* the stack of a thread may be small */
static _Thread_local int calls;     /* an argument may be an object that calls this again to tell its memory */
#define ENTERED (calls++ == 0)
#define LEFT --calls
#else
#define MEMORY
#define ENTERED 1
#define LEFT
#endif

typedef number unaligned __attribute__((vector_size(VECTOR_BYTES), aligned(sizeof(number)), may_alias));

/* The sum of zero times every number of some vectors. Several sums: one would wait for itself. */
static inline vector zero_times(const unaligned *v, const unaligned *end)
{
  vector a = {0}, b = {0}, c = {0}, d = {0};
  for (; v + 4 <= end; v += 4) {
    a += v[0] * 0.0;
    b += v[1] * 0.0;
    c += v[2] * 0.0;
    d += v[3] * 0.0;
  }
  for (; v < end; ++v) a += *v * 0.0;
  return (a + b) + (c + d);
}

static inline int all_zero(vector x)
{
  const bits good = x == 0.0;
  long lanes = -1;
  for (int k = 0; k < LANES; ++k) lanes &= good[k];
  return lanes != 0;
}

/* x: filled up with zeros to whole vectors. */
static int all_finite(const double *x, long size)
{
  const unaligned *const v = (const unaligned *)x;
  return all_zero(zero_times(v, v + (size + LANES - 1) / LANES));
}

/* Copies numbers, and returns zero times their sum. For memcpy of a known size compilers write `rep movs`, which takes
   tens of cycles to begin. */
static inline __attribute__((always_inline)) vector copied(double *restrict to, const double *from, long size)
{
  vector sum = {0};
  double rest = 0;
  long k = 0;
  for (; k + LANES <= size; k += LANES) {
    const vector numbers = *(const unaligned *)(from + k);
    *(unaligned *)(to + k) = numbers;
    sum += numbers * 0.0;
  }
  for (; k < size; ++k) rest += (to[k] = from[k]) * 0.0;
  return sum + rest;
}

/* The same once in the text: where speed matters less than compilation. */
static __attribute__((noinline)) vector copied_row(double *restrict to, const double *from, long size)
{
  return copied(to, from, size);
}

static int unit_quaternions(const double *x)
{
  for (int k = 0; k < QUATERNIONS; ++k) {
    const double *p = x + quaternion[k];
    if (!(fabs(p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + p[3] * p[3] - 1) < UNIT_TOLERANCE)) return 0;
  }
  return 1;
}

static int within_limits(const double *health)
{
  for (int k = 0; k < LIMITS; ++k)
    if (!(health[k] <= limit[k])) return 0;
  return 1;
}

/* inputs: zero times their sum. */
static int solved(vector inputs, const double *x, double *y)
{
  if (!all_zero(inputs) || !unit_quaternions(x)) return 0;
  run(x, y);
  return within_limits(y + OUTPUT_SIZE - LIMITS) && all_finite(y, OUTPUT_SIZE);
}

#if IN_PLACE
/* Like `solved`, with the results at the places of `outputs`: another pass over many costs as much as their operations.
   If it returns 0, it may have written anything there. */
static int solved_in_place(vector inputs, const double *x, const Numbers *outputs, long row)
{
  double health[LIMITS + 1], *place[OUTPUTS + 1];
  for (int k = 0; k < OUTPUTS; ++k) place[k] = outputs[k].data + row * output_size[k];
  place[OUTPUTS] = health;
  if (!all_zero(inputs) || !unit_quaternions(x)) return 0;
  run_into(x, place);
  vector sum = {0};
  double rest = 0;
  for (int k = 0; k < OUTPUTS; ++k) {
    const long whole = output_size[k] / LANES * LANES;
    sum += zero_times((const unaligned *)place[k], (const unaligned *)(place[k] + whole));
    for (long n = whole; n < output_size[k]; ++n) rest += place[k][n] * 0.0;
  }
  return within_limits(health) && all_zero(sum) && rest == 0.0;
}

/* True when no output lies over an input or another output. */
static int apart(const Numbers *given)
{
  for (int k = INPUTS; k < INPUTS + OUTPUTS; ++k)
    for (int n = 0; n < k; ++n) {
      const long size = n < INPUTS ? input_size[n] : output_size[n - INPUTS];
      if (given[n].data < given[k].data + output_size[k - INPUTS] && given[k].data < given[n].data + size) return 0;
    }
  return 1;
}
#else
#define solved_in_place(inputs, x, outputs, row) 0
#define apart(given) 0
#endif

static PyObject *solve(PyObject *self, PyObject *const *arguments, ssize_t count)
{
  MEMORY double x[PADDED(INPUT_SIZE)] __attribute__((aligned(64)));
  MEMORY double y[PADDED(OUTPUT_SIZE)] __attribute__((aligned(64)));
  double *next = x;
  vector sum = {0};
  Numbers given[INPUTS + OUTPUTS + 1];
  int seen = 0, good = ENTERED && count == INPUTS + OUTPUTS, in_place = 0;
#pragma GCC unroll 8
  for (int k = 0; k < INPUTS; ++k) {
    if (!good) break;
    good = numbers(arguments[k], given + seen++, 0, input_shape[k][0], input_shape[k] + 1);
    if (good) sum += copied(next, given[k].data, input_size[k]);
    next += input_size[k];
  }
#pragma GCC unroll 8
  for (int k = 0; k < OUTPUTS; ++k) {
    if (!good) break;
    good = numbers(arguments[INPUTS + k], given + seen++, 1, output_shape[k][0], output_shape[k] + 1);
  }
  if (good) {
    for (long k = OUTPUT_SIZE; k < PADDED(OUTPUT_SIZE); ++k) y[k] = 0;
    if (PARAMETER_SIZE) sum += copied(next, PyCapsule_GetPointer(self, 0), PARAMETER_SIZE);
    in_place = IN_PLACE && apart(given);
    good = in_place ? solved_in_place(sum, x, given + INPUTS, 0) : solved(sum, x, y);
  }
  if (good && !in_place) {
    const double *from = y;
#pragma GCC unroll 8
    for (int k = 0; k < OUTPUTS; from += output_size[k++])
      copied(given[INPUTS + k].data, from, output_size[k]);
  }
  release(given, seen);
  LEFT;
  if (!good) return PyBool_FromLong(0);
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}

PyMethodDef solve_definition = {"solve", solve, FAST_CALL, "See dynamics_node/codegen/c/call.c"};

/* Solves `count` states, rows of what is given; an input with `same` is one state for all of them. Outputs of a state
   that is not solved are NaN. 1 when every one is. From SHARED states on other threads of Python run meanwhile. */
static long solved_rows(PyObject *self, long count, const Numbers *given, const int *same)
{
  MEMORY double x[PADDED(INPUT_SIZE)] __attribute__((aligned(64)));
  MEMORY double y[PADDED(OUTPUT_SIZE)] __attribute__((aligned(64)));
  long good = 1;
  vector parameters = {0};
  for (long k = OUTPUT_SIZE; k < PADDED(OUTPUT_SIZE); ++k) y[k] = 0;
  if (PARAMETER_SIZE)
    parameters = copied_row(x + INPUT_SIZE - PARAMETER_SIZE, PyCapsule_GetPointer(self, 0), PARAMETER_SIZE);
  const int past = count * (OUTPUT_SIZE * (long)sizeof(double)) > ABOVE_CACHES, in_place = IN_PLACE && !past;
  void *thread = count >= SHARED ? PyEval_SaveThread() : 0;
  for (long row = 0; row < count; ++row) {
    vector sum = parameters;
    for (int k = 0, to = 0; k < INPUTS; to += input_size[k++])
      sum += copied_row(x + to, given[k].data + (same[k] ? 0 : row * input_size[k]), input_size[k]);
    const int solved_it = in_place ? solved_in_place(sum, x, given + INPUTS, row) : solved(sum, x, y);
    good &= solved_it;
    for (int k = 0, from = 0; k < OUTPUTS; from += output_size[k++]) {
      double *const to = given[INPUTS + k].data + row * output_size[k];
      if (solved_it && past) copy_past_caches(to, y + from, output_size[k]);
      else if (solved_it && !in_place) copied_row(to, y + from, output_size[k]);
      else if (!solved_it)
        for (long n = 0; n < output_size[k]; ++n) to[n] = __builtin_nan("");
    }
  }
  if (past) FLUSH;
  if (thread) PyEval_RestoreThread(thread);
  return good;
}

/* solve_rows(count, input, ..., output, ...): an input has `count` states along its first axis, or is one state for all;
   an output has `count`. 1 when every state is solved as by `solve`; 0 when one is not: its outputs are NaN; -1, nothing
   written, when an array is not as it should be. */
static PyObject *solve_rows(PyObject *self, PyObject *const *arguments, ssize_t number_of_arguments)
{
  Numbers given[INPUTS + OUTPUTS + 1];
  int same[INPUTS + 1], seen = 0, fit = number_of_arguments == 1 + INPUTS + OUTPUTS;
  const long count = fit ? PyLong_AsLong(*arguments++) : 0;
  for (; fit && seen < INPUTS; ++seen) fit = rows(arguments[seen], given + seen, 0, count, input_shape[seen], same + seen);
  for (; fit && seen < INPUTS + OUTPUTS; ++seen)
    fit = rows(arguments[seen], given + seen, 1, count, output_shape[seen - INPUTS], 0);
  const long good = fit ? solved_rows(self, count, given, same) : -1;
  release(given, seen);
  return PyLong_FromLong(good);
}

PyMethodDef rows_definition = {"solve_rows", solve_rows, FAST_CALL, "See dynamics_node/codegen/c/call.c"};

static PyObject *empty, *of_one[OUTPUTS + 1]; /* of NumPy, and what it takes for the outputs of one state */

void allocate_with(PyObject *function)
{
  empty = function;
}

/* What `empty` takes for an output of `count` states, of one state if count is negative. */
static PyObject *arguments_of(long count, const ssize_t *shape)
{
  const int many = count >= 0;
  PyObject *axes = PyTuple_New(shape[0] + many), *arguments = PyTuple_New(1);
  if (many) PyTuple_SetItem(axes, 0, PyLong_FromLong(count));
  for (ssize_t k = 0; k < shape[0]; ++k) PyTuple_SetItem(axes, k + many, PyLong_FromLong(shape[k + 1]));
  PyTuple_SetItem(arguments, 0, axes);
  return arguments;
}

/* A new array for an output, with its memory in `into`; count as of `arguments_of`. */
static PyObject *allocated(long count, int output, Numbers *into)
{
  const ssize_t *shape = output_shape[output];
  if (count < 0) {
    if (!of_one[output]) of_one[output] = arguments_of(-1, shape);
    PyObject *array = PyObject_CallObject(empty, of_one[output]);
    if (array) numbers(array, into, 1, shape[0], shape + 1);
    return array;
  }
  PyObject *arguments = arguments_of(count, shape), *array = PyObject_CallObject(empty, arguments);
  Py_DecRef(arguments);
  if (array) rows(array, into, 1, count, shape, 0);
  return array;
}

/* The states along the first axis of an array of NumPy, -1 if it has no axis beside those of one state. */
static long states_in(PyObject *object, const ssize_t *shape)
{
  const Array *array = (const Array *)object;
  const int fits = array_type && array->type == array_type && array->ndim == shape[0] + 1;
  return fits ? array->shape[0] : -1;
}

/* An instance of a class of tuples that takes over the arrays. */
static PyObject *tuple_of(PyObject *class, PyObject **arrays)
{
  PyObject *result = class == &PyTuple_Type ? PyTuple_New(OUTPUTS) : PyType_GenericAlloc(class, OUTPUTS);
  for (int k = 0; k < OUTPUTS; ++k) {
    if (result) PyTuple_SetItem(result, k, arrays[k]);
    else Py_DecRef(arrays[k]);
  }
  return result;
}

/* solve_new(class, input, ...): the outputs as new arrays, of one state, or, as solve_rows, of up to FEW states. The
   output itself, or an instance of `class`, which is derived from tuple, of all of them; None when a state is not
   solved or an array is not as it should be. */
static PyObject *solve_new(PyObject *self, PyObject *const *arguments, ssize_t number_of_arguments)
{
  Numbers given[INPUTS + OUTPUTS + 1];
  PyObject *made[OUTPUTS + 1];
  int same[INPUTS + 1], seen = 0, fit = number_of_arguments == 1 + INPUTS && OUTPUTS, outputs = 0;
  PyObject *const class = fit ? *arguments++ : 0;
  long count = -1;
  for (int k = 0; fit && k < INPUTS && count < 0; ++k) count = states_in(arguments[k], input_shape[k]);
  fit = fit && count <= FEW;
  for (; fit && seen < INPUTS; ++seen) {
    const ssize_t *shape = input_shape[seen];
    if (count < 0) fit = same[seen] = numbers(arguments[seen], given + seen, 0, shape[0], shape + 1);
    else fit = rows(arguments[seen], given + seen, 0, count, shape, same + seen);
  }
  for (; fit && outputs < OUTPUTS; ++outputs) {
    made[outputs] = allocated(count, outputs, given + INPUTS + outputs);
    if (!made[outputs]) { /* no memory: an exception is set */
      for (int k = 0; k < outputs; ++k) Py_DecRef(made[k]);
      release(given, seen);
      return 0;
    }
  }
  fit = fit && solved_rows(self, count < 0 ? 1 : count, given, same);
  release(given, seen);
  if (fit) return OUTPUTS == 1 ? made[0] : tuple_of(class, made);
  for (int k = 0; k < outputs; ++k) Py_DecRef(made[k]);
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}

PyMethodDef new_definition = {"solve_new", solve_new, FAST_CALL, "See dynamics_node/codegen/c/call.c"};
