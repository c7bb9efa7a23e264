import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from looking import chromium, look, smoke

__all__ = ["chromium", "look", "smoke"]
