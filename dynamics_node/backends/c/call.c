/* The Program as a builtin function of Python: solve(input, ..., output, ...) on arrays of one state.

   It returns None when it has written the outputs. It returns False, having written nothing that counts, when an
   argument is not a C-contiguous float64 array of the right size, or anything in or out is not finite, or a
   quaternion is not of unit length: finding the words for that is Python's business.

   Only the stable ABI of CPython is used (PEP 384), declared here, so that no Python.h is needed. `self` is a
   capsule that holds the address of the parameters, the last inputs of the Program.

   Arrays of NumPy are read where they lie: the beginning of PyArrayObject has been the same since 1.0, since every
   extension module has it compiled in; `trust_arrays` makes sure of it with a sample before. Without it, or for
   other objects, the buffer protocol does the same in 40 ns an argument. */
typedef struct _object PyObject;
typedef struct {
  void *buf;
  PyObject *obj;
  ssize_t len, itemsize;
  int readonly, ndim;
  char *format;
  ssize_t *shape, *strides, *suboffsets;
  void *internal;
} Py_buffer;
extern int PyObject_GetBuffer(PyObject *, Py_buffer *, int);
extern void PyBuffer_Release(Py_buffer *);
extern void PyErr_Clear(void);
extern PyObject *PyBool_FromLong(long);
extern void *PyCapsule_GetPointer(PyObject *, const char *);
extern PyObject _Py_NoneStruct;
extern void Py_IncRef(PyObject *);
#define PADDED(size) (((size) / 8 + 1) * 8)
enum { WRITABLE = 0x1, FORMAT = 0x4, C_CONTIGUOUS = 0x8 | 0x10 | 0x20 };

typedef struct {
  ssize_t references;
  void *type;
  double *data;
  int ndim;
  ssize_t *shape, *strides;
  void *base, *dtype;
  int flags;
} Array;
enum { ARRAY_C_CONTIGUOUS = 0x1, ARRAY_ALIGNED = 0x100, ARRAY_WRITABLE = 0x400 };
static void *array_type, *float64;

/* sample: a writable float64 array of shape (2, 3) with its data at `data`. */
int trust_arrays(const Array *sample, const void *data)
{
  const int flags = ARRAY_C_CONTIGUOUS | ARRAY_ALIGNED | ARRAY_WRITABLE;
  if (sample->data != data || sample->ndim != 2 || sample->shape[0] != 2 || sample->shape[1] != 3) return 0;
  if ((sample->flags & flags) != flags) return 0;
  array_type = sample->type;
  float64 = sample->dtype;
  return 1;
}

typedef struct {
  double *data;
  Py_buffer view; /* held if view.obj is set */
} Doubles;

static int same_shape(int ndim, const ssize_t *shape, const long *wanted)
{
  int same = ndim == wanted[0];
  for (int k = 0; same && k < ndim; ++k) same = shape[k] == wanted[k + 1];
  return same;
}

/* wanted: number of axes, then the length of each. */
static int doubles(PyObject *object, Doubles *found, int writable, const long *wanted)
{
  const Array *array = (Array *)object;
  found->view.obj = 0;
  if (array_type && array->type == array_type) {
    const int flags = ARRAY_C_CONTIGUOUS | ARRAY_ALIGNED | (writable ? ARRAY_WRITABLE : 0);
    found->data = array->data;
    return array->dtype == float64 && (array->flags & flags) == flags && same_shape(array->ndim, array->shape, wanted);
  }
  Py_buffer *view = &found->view;
  if (PyObject_GetBuffer(object, view, (writable ? WRITABLE : 0) | FORMAT | C_CONTIGUOUS)) {
    PyErr_Clear();
    view->obj = 0;
    return 0;
  }
  found->data = view->buf;
  return view->format[0] == 'd' && !view->format[1] && same_shape(view->ndim, view->shape, wanted);
}

/* x: aligned, and filled up with zeros to whole vectors. */
static int all_finite(const double *x, long size)
{
  vector sum = {0};
  for (long k = 0; k < size; k += 8) sum += *(const vector *)(x + k) * 0.0;
  const bits good = sum == 0.0;
  long lanes = -1;
  for (int k = 0; k < 8; ++k) lanes &= good[k];
  return lanes != 0;
}

static int unit_quaternions(const double *x)
{
  for (int k = 0; k < QUATERNIONS; ++k) {
    const double *p = x + quaternion[k];
    if (!(fabs(p[0] * p[0] + p[1] * p[1] + p[2] * p[2] + p[3] * p[3] - 1) < UNIT_TOLERANCE)) return 0;
  }
  return 1;
}

static int solved(const double *x, double *y)
{
  if (!all_finite(x, INPUT_SIZE) || !unit_quaternions(x)) return 0;
  run(x, y);
  return all_finite(y, OUTPUT_SIZE);
}

static PyObject *solve(PyObject *self, PyObject *const *arguments, ssize_t count)
{
  double x[PADDED(INPUT_SIZE)] __attribute__((aligned(64))), y[PADDED(OUTPUT_SIZE)] __attribute__((aligned(64)));
  double *next = x;
  Doubles given[INPUTS + OUTPUTS + 1];
  int seen = 0, good = count == INPUTS + OUTPUTS;
  for (; good && seen < INPUTS; ++seen) {
    good = doubles(arguments[seen], given + seen, 0, input_shape[seen]);
    if (good) memcpy(next, given[seen].data, input_size[seen] * sizeof(double));
    next += input_size[seen];
  }
  for (; good && seen < INPUTS + OUTPUTS; ++seen)
    good = doubles(arguments[seen], given + seen, 1, output_shape[seen - INPUTS]);
  if (good) {
    for (long k = INPUT_SIZE; k < PADDED(INPUT_SIZE); ++k) x[k] = 0;
    for (long k = OUTPUT_SIZE; k < PADDED(OUTPUT_SIZE); ++k) y[k] = 0;
    if (PARAMETER_SIZE) memcpy(next, PyCapsule_GetPointer(self, 0), PARAMETER_SIZE * sizeof(double));
    good = solved(x, y);
  }
  for (int k = 0, from = 0; good && k < OUTPUTS; from += output_size[k++])
    memcpy(given[INPUTS + k].data, y + from, output_size[k] * sizeof(double));
  while (seen--)
    if (given[seen].view.obj) PyBuffer_Release(&given[seen].view);
  if (!good) return PyBool_FromLong(0);
  Py_IncRef(&_Py_NoneStruct);
  return &_Py_NoneStruct;
}

typedef struct {
  const char *name;
  PyObject *(*function)(PyObject *, PyObject *const *, ssize_t);
  int flags;
  const char *doc;
} PyMethodDef;
PyMethodDef solve_definition = {"solve", solve, 0x80 /* METH_FASTCALL */, "See dynamics_node/backends/c/call.c"};
