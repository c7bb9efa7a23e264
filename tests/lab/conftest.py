import sys
from pathlib import Path

# The runs and tasks of these tests are parts like a user's own: found by the name of their module.
sys.path.insert(0, str(Path(__file__).parent))
