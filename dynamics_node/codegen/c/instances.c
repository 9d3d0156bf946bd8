/* A class of Python whose instances are called without a frame of Python: with arrays, and an `out` or nothing else, a
   call goes to the builtin functions above. What these decline, and any other call, goes to `_by_python`.

   An instance has `_at_once`: (solve, solve_new, the class of its results, inputs behind those that are given). Several
   places are a tuple. */
typedef struct {
  int slot;
  void *function;
} PyType_Slot;
typedef struct {
  const char *name;
  int size, item_size;
  unsigned flags;
  PyType_Slot *slots;
} PyType_Spec;
extern PyObject *PyObject_GetAttr(PyObject *, PyObject *);
extern PyObject *PyObject_Call(PyObject *, PyObject *, PyObject *);
extern PyObject *PyObject_Vectorcall(PyObject *, PyObject *const *, __SIZE_TYPE__, PyObject *);
extern int PyObject_IsInstance(PyObject *, PyObject *);
extern PyObject *PyErr_Occurred(void);
extern PyObject *PyUnicode_InternFromString(const char *);
extern ssize_t PyTuple_Size(PyObject *), PyDict_Size(PyObject *);
extern PyObject *PyTuple_GetItem(PyObject *, ssize_t), *PyDict_GetItemWithError(PyObject *, PyObject *);
enum { TP_CALL = 50, DERIVABLE = 1 << 10, MOST_ARGUMENTS = 32, OF_ONE = 0, OF_NEW = 1, OF_RESULTS = 2, OF_REST = 3 };

/* Appends the entries of a tuple from `first` on; more than MOST_ARGUMENTS: none are to be called. */
static void append(PyObject **list, ssize_t *count, PyObject *tuple, ssize_t first)
{
  const ssize_t size = PyTuple_Size(tuple);
  for (ssize_t k = first; k < size && *count <= MOST_ARGUMENTS; ++k) list[(*count)++] = PyTuple_GetItem(tuple, k);
}

/* True of a tuple; `PyObject_IsInstance` takes longer for arrays. */
static int is_tuple(PyObject *object)
{
  return ((const Array *)object)->type != array_type && PyObject_IsInstance(object, (PyObject *)&PyTuple_Type);
}

/* What a builtin function returns for these arguments; 0 when it declines, or with an exception. */
static PyObject *called_at_once(PyObject *at_once, PyObject *given, PyObject *out)
{
  PyObject *list[MOST_ARGUMENTS + 1];
  ssize_t count = 0;
  if (!out) list[count++] = PyTuple_GetItem(at_once, OF_RESULTS);
  append(list, &count, given, 0);
  append(list, &count, at_once, OF_REST);
  if (out && is_tuple(out)) {
    if (PyTuple_Size(out) == 1) return 0;
    append(list, &count, out, 0);
  } else if (out && count <= MOST_ARGUMENTS) list[count++] = out;
  if (count > MOST_ARGUMENTS) return 0;
  PyObject *value = PyObject_Vectorcall(PyTuple_GetItem(at_once, out ? OF_ONE : OF_NEW), list, count, 0);
  if (!value || (!out && value != &_Py_NoneStruct)) return value;
  const int written = out && value == &_Py_NoneStruct;
  Py_DecRef(value);
  if (!written) return 0;
  Py_IncRef(out);
  return out;
}

static PyObject *called(PyObject *self, PyObject *given, PyObject *named)
{
  static PyObject *at_once_name, *out_name, *by_python_name;
  if (!at_once_name) {
    out_name = PyUnicode_InternFromString("out");
    by_python_name = PyUnicode_InternFromString("_by_python");
    at_once_name = PyUnicode_InternFromString("_at_once");
  }
  const ssize_t names = named ? PyDict_Size(named) : 0;
  PyObject *const out = names == 1 ? PyDict_GetItemWithError(named, out_name) : 0;
  if (names == 0 || (out && out != &_Py_NoneStruct)) {
    PyObject *at_once = PyObject_GetAttr(self, at_once_name);
    if (!at_once) return 0;
    PyObject *value = called_at_once(at_once, given, out);
    Py_DecRef(at_once);
    if (value || PyErr_Occurred()) return value;
  }
  PyObject *by_python = PyObject_GetAttr(self, by_python_name);
  if (!by_python) return 0;
  PyObject *value = PyObject_Call(by_python, given, named);
  Py_DecRef(by_python);
  return value;
}

static PyType_Slot called_slots[] = {{TP_CALL, called}, {0, 0}};
PyType_Spec called_spec = {"dynamics_node.Function", 0, 0, DERIVABLE, called_slots};
