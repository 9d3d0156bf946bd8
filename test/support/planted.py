"""CUDA kernels with shared memory, barriers and shuffles, right as they are, and what may go wrong in each:
planted defects.

Every kernel takes (int n, const float *x, float *y) and runs in blocks of 64 threads.
"""

from typing import NamedTuple

import numpy as np

BLOCK, COUNT = 64, 200

_HEAD = """
extern "C" __global__ void __launch_bounds__(64) states(const int n, const float *__restrict__ x, float
*__restrict__ y) { const int T = threadIdx.x, first = blockIdx.x * 64, i = first + T;
"""

# Sums of all numbers up to each, in every block, by doubling
SCAN = """
  __shared__ float a[2 * 64];
  a[T] = i < n ? x[i] : 0;
  __syncthreads(); // first
  int from = 0;
  for (int s = 1; s < 64; s *= 2) {
    const float mine = a[from * 64 + T], other = T >= s ? a[from * 64 + T - s] : 0;
    a[(1 - from) * 64 + T] = mine + other;
    from = 1 - from;
    __syncthreads(); // in the loop
  }
  if (i < n) y[i] = a[from * 64 + T];
}
"""

# Odd-even elimination: rows x = r with 4 on the diagonal and -1 beside it, one system a block
ELIMINATION = """
  __shared__ float diagonal[64], beside[64], right[64];
  float d = 4, u = T < 63 ? -1 : 0, r = i < n ? x[i] : 0;
  for (int s = 1; s < 64; s *= 2) {
    diagonal[T] = d; beside[T] = u; right[T] = r;
    __syncthreads(); // published
    float e = 0, k = 0, below = 0, above = 0, next = 0;
    if (T + s < 64) { e = u / diagonal[T + s]; above = right[T + s]; next = beside[T + s]; }
    if (T >= s) { k = beside[T - s] / diagonal[T - s]; below = right[T - s]; d -= k * beside[T - s]; }
    d -= e * u;
    r -= e * above + k * below;
    u = -e * next;
    __syncthreads(); // last of the round
  }
  if (i < n) y[i] = r / d;
}
"""

# Rows of three numbers through shared memory: every number doubled
ROWS = """
  __shared__ float rows[64 * 3];
  const int own = min(64, n / 3 - first);
  for (int k = T; k < own * 3; k += 64) rows[k] = x[first * 3 + k];
  __syncthreads();
  if (T < own) for (int k = 0; k < 3; ++k) rows[T * 3 + k] *= 2;
  __syncthreads();
  for (int k = T; k < own * 3; k += 64) y[first * 3 + k] = rows[k];
}
"""

# Sums over warps by shuffles
WARPS = """
  float sum = i < n ? x[i] : 0;
  for (int s = 16; s; s /= 2) sum += __shfl_down_sync(0xffffffff, sum, s);
  if (T % 32 == 0) y[i / 32] = sum;
}
"""


def _scan(x):
    return np.concatenate([np.cumsum(x[k : k + BLOCK]) for k in range(0, len(x), BLOCK)])


def _eliminated(x):
    matrix = 4 * np.eye(BLOCK) - np.eye(BLOCK, k=1) - np.eye(BLOCK, k=-1)
    padded = np.zeros(-(-len(x) // BLOCK) * BLOCK)
    padded[: len(x)] = x
    return np.linalg.solve(matrix, padded.reshape(-1, BLOCK).T).T.ravel()[: len(x)]


def _warps(x):
    sums = np.zeros(COUNT)
    sums[:8] = np.concatenate([x, np.zeros(56)]).reshape(8, 32).sum(1)
    return sums


class Defect(NamedTuple):
    """`old` in the kernel replaced by `new`; what the Fault says."""

    kernel: str
    old: str
    new: str
    says: str


KERNELS = {"scan": SCAN, "elimination": ELIMINATION, "rows": ROWS, "warps": WARPS}
RESULTS = {
    "scan": _scan,
    "elimination": _eliminated,
    "rows": lambda x: np.append(2 * x[:198], [0, 0]),
    "warps": _warps,
}
DEFECTS = {
    "barrier in the loop left out": Defect("scan", "__syncthreads(); // in the loop", "", "race"),
    "first barrier left out": Defect("scan", "__syncthreads(); // first", "", "race"),
    "last barrier of a round left out": Defect("elimination", "__syncthreads(); // last of the round", "", "race"),
    "update in place": Defect(
        "scan", "a[(1 - from) * 64 + T] = mine + other;\n    from = 1 - from;", "a[from * 64 + T] = mine + other;", "race"
    ),
    "index one too low": Defect(
        "scan", "T >= s ? a[from * 64 + T - s]", "T >= s - 1 ? a[from * 64 + T - s]", "outside of shared memory .* by 4"
    ),
    "return before a barrier": Defect(
        "scan", "a[T] = i < n ? x[i] : 0;", "if (i >= n) return;\n  a[T] = x[i];", "left behind by returning"
    ),
    "global read out of bounds": Defect("scan", "i < n ? x[i] : 0", "x[i]", r"outside of the array in global memory .* by"),
    "two writers of one global number": Defect(
        "scan", "if (i < n) y[i]", "if (T == 5 && i + 1 < n) y[i + 1] = 0;\n  if (i < n) y[i]", "race.*st.global"
    ),
    "shuffle that names absent lanes": Defect("warps", "for (int s = 16", "if (T != 7) for (int s = 16", "elsewhere"),
    "shared memory nobody wrote": Defect("rows", "if (T < own) for", "for", "nothing was written to"),
    "barrier in a branch": Defect(
        "scan", "__syncthreads(); // first", "if (T < 32) { a[T] += 1; __syncthreads(); } else { __syncthreads(); a[T] += 2; }", "wait at a barrier"
    ),
    "two blocks write one number": Defect("scan", "y[i] = a", "y[T] = a", "race.*st.global"),
    "a block reads what another writes": Defect(
        "scan", "if (i < n) y[i]", "if (i < n) y[i] = 1;\n  __syncthreads();\n  if (i < n) y[i] = y[(i + 64) % n]; else if (i < 0) y[i]", "race.*global"
    ),
    "global memory nobody wrote": Defect("scan", "i < n ? x[i] : 0", "i < n ? ((volatile float *)y)[i] : 0", "nothing was written to"),
    "misaligned": Defect(
        "scan", "i < n ? x[i] : 0", "i < n ? *(const float *)((const char *)x + (i < n - 1 ? 4 * i + 2 : 0)) : 0", "misaligned"
    ),
}  # fmt: skip


def text(name, defect=None):
    """CUDA C of a kernel."""
    body = KERNELS[name]
    if defect:
        assert body.count(defect.old) == 1, f"{defect.old} is not in {name}"
        body = body.replace(defect.old, defect.new)
    return _HEAD + body
