"""The process of one release: `python -m pais.studio.work DIRECTORY` runs the code that the page shows.

Nothing that it prints is kept. Its outcome is a file: messages of this package, which hold public values only, and of
any other exception its type.
"""

from __future__ import annotations

import json
import os
import sys
import threading
import time
import warnings
from pathlib import Path

from pais.errors import PaisError, PrivacyWarning, QualityWarning, SurveyWarning

_SHOWN = (PrivacyWarning, QualityWarning, SurveyWarning)

# Seconds between two looks at whether the user cancelled.
_STEP = 0.2


def finish(status: str, message: str = "", notes: list[str] | None = None) -> bool:
    """Write the outcome, unless there is one. The first counts."""
    part = Path(f".outcome.{threading.get_ident()}")
    part.write_text(json.dumps({"status": status, "message": message, "notes": notes or []}), encoding="utf-8")
    try:
        os.link(part, "outcome.json")
    except FileExistsError:
        return False
    finally:
        part.unlink()
    return True


def _watch() -> None:
    """Give signs of life, and end the process if the user cancels."""
    while not Path("outcome.json").exists():
        Path("alive").touch()
        if Path("cancel").exists() and finish("cancelled"):
            os._exit(1)
        time.sleep(_STEP)


def main(place: str) -> None:
    os.umask(0o077)
    os.chdir(place)
    threading.Thread(target=_watch, daemon=True).start()
    code, notes = Path("release.py").read_text(encoding="utf-8"), list[str]()
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        try:
            exec(compile(code, "release.py", "exec"), {"__name__": "__main__"})
            status, message = "done", ""
        except PaisError as error:
            status, message = "failed", str(error)
        except MemoryError:
            # Its message would reveal how many rows there are.
            status, message = "failed", "Memory ran out. Take fewer columns or segments."
        except BaseException as error:
            status, message = (
                "failed",
                f"Internal error: {type(error).__name__} (message hidden: it could quote a row).",
            )
        notes = [str(one.message) for one in caught if issubclass(one.category, _SHOWN)]
    finish(status, message, list(dict.fromkeys(notes)))


if __name__ == "__main__":
    main(sys.argv[1])
