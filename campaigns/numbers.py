"""Random robots against independent references: python campaigns/numbers.py --minutes 30"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

if __name__ == "__main__":
    # replaces campaigns/: this file must not shadow `numbers` of the standard library
    sys.path[:1] = [str(ROOT), str(ROOT / "test" / "support")]
    from campaigns.random_robots import main

    sys.exit(main())
