/* A class of Python whose instances are called without a frame of Python, and without a tuple and a dictionary for the
   arguments (vectorcall, PEP 590): with arrays, `out` and `errors`, a call goes to the builtin functions above. They decline
   states without a result, to which alone `errors` applies. What they decline, and any other call, goes to `_by_python`.

   An instance may have `_at_once`: (solve, solve_new, the class of its results, names of the inputs, defaults of the last
   ones).
   Several places are a tuple. The address of `called` lies behind the fields of the base class. */
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
typedef struct {
  const char *name;
  int type;
  ssize_t offset;
  int flags;
  const char *doc;
} PyMemberDef;
extern PyObject *PyObject_GetAttr(PyObject *, PyObject *);
extern PyObject *PyObject_Call(PyObject *, PyObject *, PyObject *);
extern PyObject *PyVectorcall_Call(PyObject *, PyObject *, PyObject *);
extern int PyObject_IsInstance(PyObject *, PyObject *);
extern PyObject *PyErr_Occurred(void);
extern PyObject *PyUnicode_InternFromString(const char *);
extern ssize_t PyTuple_Size(PyObject *);
extern PyObject *PyTuple_GetItem(PyObject *, ssize_t), *PyDict_New(void);
extern int PyDict_SetItem(PyObject *, PyObject *, PyObject *);
extern PyObject *(*PyCFunction_GetFunction(PyObject *))(PyObject *, PyObject *const *, ssize_t);
extern PyObject *PyCFunction_GetSelf(PyObject *);
enum { TP_CALL = 50, TP_MEMBERS = 72, DERIVABLE = 1 << 10, VECTORCALL = 1 << 11, SIGNED_SIZE = 19, READ_ONLY = 1 };
enum { OUT = 0, ERRORS = 1, RAISE = 2, NO_NUMBER = 3 };
enum { MOST_ARGUMENTS = 32, OF_ONE = 0, OF_NEW = 1, OF_RESULTS = 2, OF_NAMES = 3, OF_DEFAULTS = 4 };
#define NUMBER_OF_ARGUMENTS(flagged) ((ssize_t)((flagged) & ~((__SIZE_TYPE__)1 << (8 * sizeof(__SIZE_TYPE__) - 1))))

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

/* The inputs, with the defaults of those that are not given, in `list`, and their number; -1 when one is missing or a
   name is none of theirs. names: of the arguments behind `number`, of which `out` and
   `errors` with a known value are none: in `own`. */
static ssize_t all_inputs(PyObject **list, PyObject *at_once, PyObject *const *given, ssize_t number, PyObject *names,
                      PyObject *const *own)
{
  PyObject *const inputs = PyTuple_GetItem(at_once, OF_NAMES);
  const ssize_t total = PyTuple_Size(inputs), required = total + OF_DEFAULTS - PyTuple_Size(at_once);
  const ssize_t named = names ? PyTuple_Size(names) : 0;
  if (number > total || total >= MOST_ARGUMENTS) return -1;
  for (ssize_t k = 0; k < total; ++k)
    list[k] = k < number ? given[k] : k < required ? 0 : PyTuple_GetItem(at_once, OF_DEFAULTS + k - required);
  for (ssize_t k = 0; k < named; ++k) {
    PyObject *const name = PyTuple_GetItem(names, k), *const value = given[number + k];
    ssize_t place = number;
    if (name == own[OUT] || (name == own[ERRORS] && (value == own[RAISE] || value == own[NO_NUMBER]))) continue;
    while (place < total && PyTuple_GetItem(inputs, place) != name) ++place;
    if (place == total) return -1;
    if (value != &_Py_NoneStruct) list[place] = value;
  }
  for (ssize_t k = number; k < required; ++k)
    if (!list[k]) return -1;
  return total;
}

/* What a builtin function returns for these arguments; 0 when it declines, or with an exception. */
static PyObject *called_at_once(PyObject *at_once, PyObject *const *given, ssize_t number, PyObject *names,
                                PyObject *const *own, PyObject *out)
{
  PyObject *list[MOST_ARGUMENTS + 1];
  ssize_t count = 0;
  if (!out) list[count++] = PyTuple_GetItem(at_once, OF_RESULTS);
  const ssize_t inputs = all_inputs(list + count, at_once, given, number, names, own);
  if (inputs < 0) return 0;
  count += inputs;
  if (out && is_tuple(out)) {
    if (PyTuple_Size(out) == 1) return 0;
    append(list, &count, out, 0);
  } else if (out && count <= MOST_ARGUMENTS) list[count++] = out;
  if (count > MOST_ARGUMENTS) return 0;
  PyObject *const builtin = PyTuple_GetItem(at_once, out ? OF_ONE : OF_NEW);
  PyObject *value = PyCFunction_GetFunction(builtin)(PyCFunction_GetSelf(builtin), list, count);
  if (!value || (!out && value != &_Py_NoneStruct)) return value;
  const int written = out && value == &_Py_NoneStruct;
  Py_DecRef(value);
  if (!written) return 0;
  Py_IncRef(out);
  return out;
}

/* What a function of Python returns for these arguments, of which the last ones have names. */
static PyObject *called_by_python(PyObject *function, PyObject *const *given, ssize_t number, PyObject *names)
{
  PyObject *arguments = PyTuple_New(number), *named = names ? PyDict_New() : 0, *value = 0;
  int good = arguments && (named || !names);
  for (ssize_t k = 0; good && k < number; ++k) {
    Py_IncRef(given[k]);
    PyTuple_SetItem(arguments, k, given[k]);
  }
  for (ssize_t k = 0; good && names && k < PyTuple_Size(names); ++k)
    good = !PyDict_SetItem(named, PyTuple_GetItem(names, k), given[number + k]);
  if (good) value = PyObject_Call(function, arguments, named);
  Py_DecRef(arguments);
  Py_DecRef(named);
  return value;
}

/* flagged: the number of arguments by position, and a flag; names: of those behind them. */
static PyObject *called(PyObject *self, PyObject *const *given, __SIZE_TYPE__ flagged, PyObject *names)
{
  static PyObject *at_once_name, *own[4], *by_python_name;
  if (!at_once_name) {
    own[OUT] = PyUnicode_InternFromString("out");
    own[ERRORS] = PyUnicode_InternFromString("errors");
    own[RAISE] = PyUnicode_InternFromString("raise");
    own[NO_NUMBER] = PyUnicode_InternFromString("nan");
    by_python_name = PyUnicode_InternFromString("_by_python");
    at_once_name = PyUnicode_InternFromString("_at_once");
  }
  const ssize_t number = NUMBER_OF_ARGUMENTS(flagged);
  PyObject *out = 0, *at_once = PyObject_GetAttr(self, at_once_name);
  for (ssize_t k = names ? PyTuple_Size(names) : 0; k-- > 0;)
    if (PyTuple_GetItem(names, k) == own[OUT] && given[number + k] != &_Py_NoneStruct) out = given[number + k];
  PyObject *at_once_value = at_once ? called_at_once(at_once, given, number, names, own, out) : 0;
  if (!at_once) PyErr_Clear();
  Py_DecRef(at_once);
  if (at_once_value || PyErr_Occurred()) return at_once_value;
  PyObject *by_python = PyObject_GetAttr(self, by_python_name);
  if (!by_python) return 0;
  PyObject *value = called_by_python(by_python, given, number, names);
  Py_DecRef(by_python);
  return value;
}

static PyMemberDef called_members[] = {{"__vectorcalloffset__", SIGNED_SIZE, 0, READ_ONLY, 0}, {0}};
static PyType_Slot called_slots[] = {{TP_CALL, PyVectorcall_Call}, {TP_MEMBERS, called_members}, {0, 0}};
static PyType_Spec called_spec = {"dynamics_node.Function", 0, 0, DERIVABLE | VECTORCALL, called_slots};

/* What PyType_FromSpecWithBases takes for a class derived from one whose instances have `size` bytes. */
const PyType_Spec *spec_behind(int size)
{
  called_members[0].offset = size;
  called_spec.size = size + sizeof(void *);
  return &called_spec;
}

/* Lets an instance of such a class be called. */
void call_at_once(PyObject *self, long size)
{
  *(void **)((char *)self + size) = called;
}
