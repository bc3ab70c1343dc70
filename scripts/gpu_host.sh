#!/usr/bin/env bash
# One release on a GPU host without network: matrix of both cases on CUDA, then timings.
#   gpu_host.sh RESULTS LABEL MATRIX_SECONDS TIME_SECONDS SOURCE...
# SOURCE is what names the target: `--interpreter python3`, or `--channel wheelhouse:DIR --torch V`.
# CASES and JOBS in the environment narrow and widen it. Logs go to /tmp/LABEL-*.log.
# Runs the harness on the Python that is there; a folder `.whl` beside the repo may hold what it lacks.
set -u
results=$1 label=$2 matrix_s=$3 time_s=$4
shift 4
root=$(cd "$(dirname "$0")/.." && pwd)
export HARNESS_HOME=${HARNESS_HOME:-/tmp/harness-home} PYTHONUNBUFFERED=1
if [ -d "$root/.whl" ] && [ ! -d /tmp/site ]; then
    python3 -m pip install -q --no-index --no-deps --no-compile --no-cache-dir --target /tmp/site "$root"/.whl/*.whl
fi
export PYTHONPATH=/tmp/site:$root
cd "$root" || exit
began=$SECONDS
timeout -s INT "$matrix_s" python3 -m harness matrix ${CASES:-} --device cuda --trials 3 -j "${JOBS:-12}" \
    --results "$results" --disk-budget 40 "$@" > "/tmp/$label-matrix.log" 2>&1
echo "$label matrix rc $? after $((SECONDS - began)) s"
tail -n 4 "/tmp/$label-matrix.log"
if [ "$time_s" -gt 0 ]; then
    began=$SECONDS
    python3 -m harness time pytorch-188069 --device cuda --deadline "$time_s" --quick --results "$results" "$@" \
        > "/tmp/$label-time.log" 2>&1
    echo "$label time rc $? after $((SECONDS - began)) s"
    tail -n 3 "/tmp/$label-time.log"
fi
