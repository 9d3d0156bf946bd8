/* The Program over many states as a builtin function of Python. */
extern PyObject *PyLong_FromLong(long);
extern long PyLong_AsLong(PyObject *);
extern void *PyEval_SaveThread(void);
extern void PyEval_RestoreThread(void *);

/* run_batch(from, to, count, input, ..., output, ...): states from .. to - 1 of the count that the arrays hold. An input
   has `count` states along its first axis or is one state for all, an output has `count`. 1 when all states are good:
   finite in and out, with quaternions of unit length, the last output within its limits; 0 when one is not, which changes
   no other; -1, nothing written, when an array is not as it should be. Other threads of Python run meanwhile. */
static PyObject *run_batch(PyObject *self, PyObject *const *arguments, ssize_t number_of_arguments)
{
  if (number_of_arguments != 3 + INPUTS + OUTPUTS) return PyLong_FromLong(-1);
  const long from = PyLong_AsLong(arguments[0]), to = PyLong_AsLong(arguments[1]), count = PyLong_AsLong(arguments[2]);
  Numbers given[INPUTS + OUTPUTS + 1];
  const number *input[INPUTS + 1];
  number *output[OUTPUTS + 1];
  int same[INPUTS + 1], seen = 0, fit = 0 <= from && from <= to && to <= count;
  for (arguments += 3; fit && seen < INPUTS; ++seen) {
    fit = rows(arguments[seen], given + seen, 0, count, input_shape[seen], same + seen);
    input[seen] = given[seen].data;
  }
  for (; fit && seen < INPUTS + OUTPUTS; ++seen) {
    fit = rows(arguments[seen], given + seen, 1, count, output_shape[seen - INPUTS], 0);
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

PyMethodDef batch_definition = {"run_batch", run_batch, FAST_CALL, "See dynamics_node/codegen/c/batch.c"};
