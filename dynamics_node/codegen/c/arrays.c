/* What Python gives, as memory: arrays of numbers that are contiguous and have the type and the shape wanted.

   Only functions that CPython 3.10 and later export are used: vectorcall and the stable ABI (PEP 384). They are declared
   here, so that no Python.h is needed.

   Arrays of NumPy are read where they lie: the beginning of PyArrayObject has been the same since 1.0, since every
   extension module has it compiled in; `trust_arrays` makes sure of it with a sample before. Without it, for other
   objects, and for types that are equal but not the same object, the buffer protocol does the same in 40 ns an
   argument. */
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
enum { WRITABLE = 0x1, FORMAT = 0x4, C_CONTIGUOUS = 0x8 | 0x10 | 0x20, FAST_CALL = 0x80 };

typedef struct {
  const char *name;
  PyObject *(*function)(PyObject *, PyObject *const *, ssize_t);
  int flags;
  const char *doc;
} PyMethodDef;

typedef struct {
  ssize_t references;
  void *type;
  number *data;
  int ndim;
  ssize_t *shape, *strides;
  void *base, *dtype;
  int flags;
} Array;
enum { ARRAY_C_CONTIGUOUS = 0x1, ARRAY_ALIGNED = 0x100, ARRAY_WRITABLE = 0x400 };
static void *array_type, *number_type;

/* sample: a writable array of numbers of shape (2, 3) with its data at `data`. */
int trust_arrays(const Array *sample, const void *data)
{
  const int flags = ARRAY_C_CONTIGUOUS | ARRAY_ALIGNED | ARRAY_WRITABLE;
  if (sample->data != data || sample->ndim != 2 || sample->shape[0] != 2 || sample->shape[1] != 3) return 0;
  if ((sample->flags & flags) != flags) return 0;
  array_type = sample->type;
  number_type = sample->dtype;
  return 1;
}

typedef struct {
  number *data;
  Py_buffer view; /* to be released if view.obj is set */
} Numbers;

static inline __attribute__((always_inline)) int same_shape(
    int ndim, const ssize_t *shape, int wanted_ndim, const ssize_t *wanted)
{
  int same = ndim == wanted_ndim;
#pragma GCC unroll 4
  for (int k = 0; k < wanted_ndim; ++k) same = same && shape[k] == wanted[k];
  return same;
}

/* `numbers` of other objects than arrays of NumPy. */
static __attribute__((noinline)) int numbers_of_buffer(
    PyObject *object, Numbers *into, int writable, int ndim, const ssize_t *shape)
{
  Py_buffer *view = &into->view;
  if (PyObject_GetBuffer(object, view, (writable ? WRITABLE : 0) | FORMAT | C_CONTIGUOUS)) {
    PyErr_Clear();
    view->obj = 0;
    return 0;
  }
  into->data = view->buf;
  return view->format[0] == NUMBER_FORMAT && !view->format[1] && same_shape(view->ndim, view->shape, ndim, shape);
}

/* True when the object is an array of numbers of this shape; release `into` in any case. */
static inline __attribute__((always_inline)) int numbers(
    PyObject *object, Numbers *into, int writable, int ndim, const ssize_t *shape)
{
  const Array *array = (Array *)object;
  into->view.obj = 0;
  if (!array_type || array->type != array_type || array->dtype != number_type)
    return numbers_of_buffer(object, into, writable, ndim, shape);
  const int flags = ARRAY_C_CONTIGUOUS | ARRAY_ALIGNED | (writable ? ARRAY_WRITABLE : 0);
  into->data = array->data;
  return (array->flags & flags) == flags && same_shape(array->ndim, array->shape, ndim, shape);
}

static void release(Numbers *given, int count)
{
  for (int k = 0; k < count; ++k)
    if (given[k].view.obj) PyBuffer_Release(&given[k].view);
}

/* An array of `count` states, or, if `same` is given, of one state for all of them. */
static __attribute__((noinline)) int rows(PyObject *object, Numbers *into, int writable, long count, const ssize_t *shape, int *same)
{
  ssize_t wanted[MOST_AXES + 1] = {count};
  memcpy(wanted + 1, shape + 1, shape[0] * sizeof(ssize_t));
  if (same) *same = 0;
  if (numbers(object, into, writable, shape[0] + 1, wanted)) return 1;
  release(into, 1);
  return same && (*same = numbers(object, into, writable, shape[0], shape + 1));
}
