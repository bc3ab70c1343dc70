"""One attempt: runs the job, writes what it saw to the job's result file.

Kind, phase, exception chain, description of the outputs: what that means is not decided here.
"""

from __future__ import annotations

import faulthandler
import json
import os
import signal
import sys
from typing import Any, Dict

from .failure import Unsupported, failure, guarded, print_traceback
from .progress import Progress
from .repro import apply_config, run_repro

Json = Dict[str, Any]


def main(job_path: str) -> None:
    """Run the job and write its result; a script's exit code becomes this process's."""
    with open(job_path) as stream:
        job = json.load(stream)
    faulthandler.enable()
    faulthandler.register(signal.SIGUSR2, all_threads=True, chain=False)
    progress = Progress(job["progress"])
    code = 0
    if job["spec"].get("script"):
        result, code = run_script(job, progress)
    elif job["spec"].get("probe"):
        result = run_probe(progress)
    elif job["spec"].get("timing"):
        from . import timing

        result = guarded(lambda: timing.run(job["spec"], progress), progress)
    else:
        result = guarded(lambda: run_repro(job["spec"], progress), progress)
    temporary = job["result"] + ".part"
    try:
        with open(temporary, "w") as stream:
            json.dump(result, stream)
        os.replace(temporary, job["result"])
    except OSError as exc:
        print("the result cannot be written: %s" % exc, file=sys.stderr)
        code = code or 70
    if code:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def run_script(job: Json, progress: Progress) -> tuple[Json, int]:
    """Run a script as ``python script.py`` would, keeping the exception that ends it."""
    import runpy

    spec = job["spec"]
    progress.enter("run")
    sys.argv = [spec["script"], *spec.get("argv", [])]
    sys.path.insert(0, os.path.dirname(spec["script"]))
    try:
        if spec.get("config"):
            import torch

            apply_config(torch, spec["config"])
        runpy.run_path(spec["script"], run_name="__main__")
    except Unsupported as exc:
        return {"kind": "unsupported", "phase": "build", "reason": str(exc)}, 0
    except SystemExit as exc:
        code = exc.code
        if code is None or code == 0:
            return {"kind": "ok", "phase": "run"}, 0
        if not isinstance(code, int):
            print(code, file=sys.stderr)
            code = 1
        return {"kind": "error", "phase": "run", "reason": "exit code %d" % code}, code & 0xFF
    except BaseException as exc:
        print_traceback(exc)
        progress.phase = "run"
        return failure(exc, progress), 1
    return {"kind": "ok", "phase": "run"}, 0


def run_probe(progress: Progress) -> Json:
    """Facts about this environment, for the target's record."""
    import platform

    facts: Json = {"python": platform.python_version(), "executable_name": sys.implementation.name}
    result: Json = {"kind": "ok", "phase": "import", "detail": facts}
    try:
        import torch
    except BaseException as exc:
        print_traceback(exc)
        return failure(exc, progress)
    facts["torch"] = str(torch.__version__)
    facts["git_version"] = getattr(torch.version, "git_version", None)
    facts["cuda"] = getattr(torch.version, "cuda", None)
    for module in ("numpy", "triton", "setuptools"):
        try:
            facts[module] = str(__import__(module).__version__)
        except BaseException:
            facts[module] = None
    try:
        facts["cuda_available"] = bool(torch.cuda.is_available())
        facts["gpus"] = []
        if facts["cuda_available"]:
            for index in range(torch.cuda.device_count()):
                gpu = torch.cuda.get_device_properties(index)
                facts["gpus"].append(
                    {
                        "name": gpu.name,
                        "memory_bytes": gpu.total_memory,
                        "capability": "%d.%d" % (gpu.major, gpu.minor),
                    }
                )
            facts["tf32_matmul"] = bool(torch.backends.cuda.matmul.allow_tf32)
    except BaseException as exc:
        facts["cuda_available"] = False
        facts["cuda_error"] = str(exc)[:500]
    try:
        # Writes the byte code of the compiler's modules, which takes longer than many an attempt:
        # the first attempt in a new environment is then no slower than the next.
        import torch._dynamo
        import torch._inductor.compile_fx
    except BaseException as exc:
        facts["compiler_import_error"] = "%s: %s" % (type(exc).__name__, str(exc)[:500])
    return result
