"""Other bandit libraries on the same tasks, one file a peer.

Run by the interpreter of `.peers`, never by ours: nothing here may import gdcb, and
`benchmarks.peers_driver` starts it. One BLAS thread, set before NumPy is imported.
"""

import os

for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "BLIS_NUM_THREADS"):
    os.environ[_name] = "1"
