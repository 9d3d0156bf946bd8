"""python -m dynamics_node.cli"""

import sys

from dynamics_node.cli import main

sys.exit(main())
