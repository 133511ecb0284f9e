#!/bin/bash
# Stop the cluster that up.sh started in DIR. Signals only pids from DIR's pid
# files and slurmstepd processes (with their tasks) that work in DIR/log.
# usage: down.sh DIR      exit 0: stopped cleanly; 1: something needed KILL
set -uo pipefail
D=$(cd "${1:?usage: down.sh DIR}" && pwd) || exit 2
export SLURM_CONF=$D/slurm.conf
rc=0

# running PID NAME: PID exists, is no zombie, and its command line has NAME
# (pid 1 here reaps orphans only every other second: kill -0 is not enough)
running() {
  local state
  state=$(sed -n 's/^State:[[:space:]]*\(.\).*/\1/p' "/proc/$1/status" 2>/dev/null)
  [ -n "$state" ] && [ "$state" != Z ] || return 1
  [[ "$(tr '\0' ' ' 2>/dev/null < "/proc/$1/cmdline")" == *"$2"* ]]
}

# stop NAME PIDFILE...: TERM to all, wait up to ten minutes, then KILL
stop() {
  local name=$1 f p left end pids=()
  shift
  for f in "$@"; do
    [ -s "$f" ] || continue
    p=$(cat "$f")
    running "$p" "$name" || continue
    kill -TERM "$p" 2>/dev/null
    pids+=("$p")
  done
  for ((end = SECONDS + 600; SECONDS < end; )); do
    left=0
    for p in "${pids[@]}"; do running "$p" "$name" && left=1; done
    [ $left = 0 ] && break
    sleep 0.05
  done
  for p in "${pids[@]}"; do
    if running "$p" "$name"; then
      echo "down.sh: $name ($p) did not stop on TERM" >&2
      kill -KILL "$p" 2>/dev/null
      rc=1
    fi
  done
  for f in "$@"; do rm -f "$f"; done
}

# steps: pids of this cluster's slurmstepd processes
steps() {
  local p
  for p in $(pgrep -x slurmstepd); do
    [ "$(readlink "/proc/$p/cwd")" = "$D/log" ] && running "$p" slurmstepd: && echo "$p"
  done
}

# 1. let Slurm end the jobs while it still can
if [ -s "$D/run/slurmctld.pid" ] && running "$(cat "$D/run/slurmctld.pid")" slurmctld; then
  mapfile -t jobs < <(timeout 100 squeue -h -o %A 2>/dev/null)
  if [ ${#jobs[@]} -gt 0 ]; then timeout 100 scancel "${jobs[@]}"; fi
  for ((end = SECONDS + 600; SECONDS < end; )); do
    [ -z "$(timeout 100 squeue -h -o %A 2>/dev/null)" ] && break
    sleep 0.1
  done
fi
# 2. daemons
stop slurmd "$D"/run/slurmd-*.pid
stop slurmctld "$D/run/slurmctld.pid"
# 3. steps that outlived a killed slurmd or slurmctld: their tasks first, then
# slurmstepd ends by itself
for p in $(steps); do
  echo "down.sh: killing the tasks of a left-over slurmstepd ($p)" >&2
  rc=1
  read -ra kids < <(cat "/proc/$p/task/$p/children" 2>/dev/null; echo)
  if [ ${#kids[@]} -gt 0 ]; then kill -KILL "${kids[@]}" 2>/dev/null; fi
done
for ((end = SECONDS + 60; SECONDS < end; )); do
  [ -z "$(steps)" ] && break
  sleep 0.1
done
for p in $(steps); do kill -KILL "$p" 2>/dev/null; done
# 4. munged last: everything above authenticates through it
stop munged "$D/run/munge/munged.pid"
exit $rc
