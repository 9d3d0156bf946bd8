/* The Program as a builtin function of Python: solve(input, ..., output, ...) on arrays of one state.

   It returns None when it has written the outputs. It returns False, having written nothing that counts, when an
   argument is not a C-contiguous float64 array of the right size, or anything in or out is not finite, or a
   quaternion is not of unit length: finding the words for that is Python's business.

   Only the stable ABI of CPython is used (PEP 384), declared here, so that no Python.h is needed. `self` is a
   capsule that holds the address of the parameters, the last inputs of the Program. */
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
enum { WRITABLE = 0x1, FORMAT = 0x4, C_CONTIGUOUS = 0x8 | 0x10 | 0x20 };

static int doubles(PyObject *object, Py_buffer *view, int flags, int ndim, long size)
{
  if (PyObject_GetBuffer(object, view, flags | FORMAT | C_CONTIGUOUS)) {
    PyErr_Clear();
    return 0;
  }
  if (view->ndim == ndim && view->len == size * (long)sizeof(double) && view->format[0] == 'd' && !view->format[1])
    return 1;
  PyBuffer_Release(view);
  return 0;
}

static int all_finite(const double *x, long size)
{
  double sum = 0;
  for (long k = 0; k < size; ++k) sum += x[k] * 0.0;
  return sum == 0;
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
  double x[INPUT_SIZE + 1], y[OUTPUT_SIZE + 1], *next = x;
  double *result[OUTPUTS + 1];
  Py_buffer views[INPUTS + OUTPUTS + 1];
  int held = 0, good = count == INPUTS + OUTPUTS;
  for (; good && held < INPUTS; held += good) {
    good = doubles(arguments[held], views + held, 0, input_ndim[held], input_size[held]);
    if (good) memcpy(next, views[held].buf, views[held].len);
    next += input_size[held];
  }
  for (; good && held < INPUTS + OUTPUTS; held += good) {
    const int k = held - INPUTS;
    good = doubles(arguments[held], views + held, WRITABLE, output_ndim[k], output_size[k]);
    if (good) result[k] = views[held].buf;
  }
  if (good) {
    if (PARAMETER_SIZE) memcpy(next, PyCapsule_GetPointer(self, 0), PARAMETER_SIZE * sizeof(double));
    good = solved(x, y);
  }
  for (int k = 0, from = 0; good && k < OUTPUTS; from += output_size[k++])
    memcpy(result[k], y + from, output_size[k] * sizeof(double));
  while (held) PyBuffer_Release(views + --held);
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
