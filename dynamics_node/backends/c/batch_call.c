/* The Program over many states as a builtin function of Python. */
extern PyObject *PyLong_FromLong(long);
extern long PyLong_AsLong(PyObject *);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);

/* run_batch(from, to, count, input, ..., output, ...): states from .. to - 1 of the count that the arrays hold. An input
   is (count, size) or (size,), an output (count, size). 1 when all states are good: finite in and out, with quaternions
   of unit length; 0 when one is not, which changes no other; -1, nothing written, when an array is not as it should be.
   Other threads of Python run meanwhile. */
static PyObject *run_batch(PyObject *self, PyObject *const *arguments, ssize_t number_of_arguments)
{
  if (number_of_arguments != 3 + INPUTS + OUTPUTS) return PyLong_FromLong(-1);
  const long from = PyLong_AsLong(arguments[0]), to = PyLong_AsLong(arguments[1]), count = PyLong_AsLong(arguments[2]);
  Numbers given[INPUTS + OUTPUTS + 1];
  const number *input[INPUTS + 1];
  number *output[OUTPUTS + 1];
  int same[INPUTS + 1], seen = 0, fit = 0 <= from && from <= to && to <= count;
  for (arguments += 3; fit && seen < INPUTS; ++seen) {
    const ssize_t shape[2] = {count, input_size[seen]};
    fit = numbers(arguments[seen], given + seen, 0, 2, shape);
    same[seen] = !fit;
    if (!fit) {
      release(given + seen, 1);
      fit = numbers(arguments[seen], given + seen, 0, 1, shape + 1);
    }
    input[seen] = given[seen].data;
  }
  for (; fit && seen < INPUTS + OUTPUTS; ++seen) {
    const ssize_t shape[2] = {count, output_size[seen - INPUTS]};
    fit = numbers(arguments[seen], given + seen, 1, 2, shape);
    output[seen - INPUTS] = given[seen].data;
  }
  long good = -1;
  if (fit) {
    void *thread = PyEval_SaveThread();
    good = batch(from, to, count, input, same, output);
    PyEval_RestoreThread(thread);
  }
  release(given, seen);
  return PyLong_FromLong(good);
}

PyMethodDef batch_definition = {"run_batch", run_batch, FAST_CALL, "See dynamics_node/backends/c/batch.c"};
