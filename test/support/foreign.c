/* After the text of a Program, what makes it a program of its own for another processor, in place of Python. It reads
   longs: the first state, the one after the last, the count, how many numbers arrays lie behind a multiple of 64 bytes,
   and for every input whether it is one state for all; then the parameters and all inputs. It writes a long, whether all
   states are good, then all outputs. SOLVE is its work. */
extern long read(int, void *, __SIZE_TYPE__), write(int, const void *, __SIZE_TYPE__);
extern void *aligned_alloc(__SIZE_TYPE__, __SIZE_TYPE__);
extern void exit(int) __attribute__((noreturn));

static number *parameters;
struct _object {
  int nothing;
};
PyObject _Py_NoneStruct, PyTuple_Type;
void *PyCapsule_GetPointer(PyObject *self, const char *name) { return parameters; }
void *PyEval_SaveThread(void) { return 0; }
void PyEval_RestoreThread(void *thread) {}
int PyObject_GetBuffer(PyObject *object, Py_buffer *view, int flags) { return -1; }
void PyBuffer_Release(Py_buffer *view) {}
void PyErr_Clear(void) {}
PyObject *PyBool_FromLong(long value) { return 0; }
PyObject *PyLong_FromLong(long value) { return 0; }
long PyLong_AsLong(PyObject *number) { return 0; }
PyObject *PyTuple_New(ssize_t size) { return 0; }
int PyTuple_SetItem(PyObject *tuple, ssize_t place, PyObject *item) { return 0; }
PyObject *PyType_GenericAlloc(PyObject *type, ssize_t size) { return 0; }
PyObject *PyObject_CallObject(PyObject *function, PyObject *arguments) { return 0; }
void Py_IncRef(PyObject *object) {}
void Py_DecRef(PyObject *object) {}

static void transfer(long (*move)(int, void *, __SIZE_TYPE__), int file, void *data, ssize_t size)
{
  for (ssize_t done = 0, more; done < size; done += more)
    if ((more = move(file, (char *)data + done, size - done)) <= 0) exit(2);
}

static number *array(ssize_t numbers, long shift)
{
  const ssize_t bytes = (numbers + shift) * (ssize_t)sizeof(number);
  return (number *)aligned_alloc(64, (bytes / 64 + 1) * 64) + shift;
}

static ssize_t product(const ssize_t *shape)
{
  ssize_t size = 1;
  for (ssize_t k = 0; k < shape[0]; ++k) size *= shape[k + 1];
  return size;
}

int main(void)
{
  long head[4 + INPUTS];
  int same[INPUTS + 1];
  Numbers given[INPUTS + OUTPUTS + 1];
  transfer(read, 0, head, sizeof head);
  const long from = head[0], to = head[1], count = head[2], shift = head[3];
  parameters = array(PARAMETER_SIZE, 0);
  transfer(read, 0, parameters, PARAMETER_SIZE * sizeof(number));
  for (int k = 0; k < INPUTS + OUTPUTS; ++k) {
    const ssize_t size = product(k < INPUTS ? input_shape[k] : output_shape[k - INPUTS]);
    const int is_input = k < INPUTS, is_same = is_input && head[4 + k];
    const ssize_t numbers = is_same ? size : count * size;
    if (is_input) same[k] = is_same;
    given[k].data = array(numbers, shift);
    if (is_input) transfer(read, 0, given[k].data, numbers * sizeof(number));
  }
  long good = SOLVE(from, to, count, given, same);
  transfer((void *)write, 1, &good, sizeof good);
  for (int k = INPUTS; k < INPUTS + OUTPUTS; ++k)
    transfer((void *)write, 1, given[k].data, count * product(output_shape[k - INPUTS]) * sizeof(number));
  return 0;
}
