#!/bin/bash
# Start a private Slurm cluster on this host: munged, slurmctld and NODES
# slurmd, no systemd, no cgroups, listening on 127.0.0.0/8 only. Needs root.
# usage: up.sh DIR      afterwards: export SLURM_CONF=DIR/slurm.conf
# environment:
#   SLURM_TEST_NODES=2  SLURM_TEST_GPUS=4  SLURM_TEST_CPUS=8   (per node)
#   SLURM_TEST_PORT_BASE=16817   slurmctld; slurmd of node i is at base+i
#   SLURM_TEST_UTS=1             node i is host "node<i>" at 127.0.0.<i+1>;
#                                0: every node is this host at 127.0.0.1
set -euo pipefail
umask 022
here=$(cd "$(dirname "$0")" && pwd)
D=${1:?usage: up.sh DIR}
BASE=${SLURM_TEST_PORT_BASE:-16817}
NODES=${SLURM_TEST_NODES:-2}
GPUS=${SLURM_TEST_GPUS:-4}
CPUS=${SLURM_TEST_CPUS:-8}
UTS=${SLURM_TEST_UTS:-1}
HOST=$(hostname -s)

[ "$(id -u)" = 0 ] || { echo "up.sh: must be root" >&2; exit 1; }
# NoInAddrAny binds every Slurm listener (slurmctld, slurmd, salloc, srun) to
# the address of its host name; refuse to start where that is not loopback
case $(getent -A ahostsv4 "$(hostname)" | awk 'NR == 1 {print $1}') in
  127.*) ;;
  *) echo "up.sh: $(hostname) does not resolve to 127.0.0.0/8" >&2; exit 1 ;;
esac

mkdir -p "$D"
D=$(cd "$D" && pwd)
# sockets live below DIR and sun_path holds 108 bytes
[ ${#D} -le 70 ] || { echo "up.sh: DIR is longer than 70 bytes" >&2; exit 1; }
[ ! -e "$D/run" ] || "$here/down.sh" "$D" || true  # an earlier cluster in DIR
rm -rf "$D"/{log,run,state}                     # job ids start at 1 again
mkdir -p "$D"/{log,run,state,gpu}
trap '[ $? = 0 ] || "$here/down.sh" "$D"' EXIT  # leave nothing behind on failure

# --- munge: private key and socket, daemon runs as root ---
install -d -m 0700 "$D/munge"                   # key, seed, log
install -d -m 0755 "$D/run/munge"               # socket, pid file
[ -s "$D/munge/munge.key" ] || mungekey --create --keyfile="$D/munge/munge.key"
munged --socket="$D/run/munge/munge.socket" --key-file="$D/munge/munge.key" \
  --pid-file="$D/run/munge/munged.pid" --log-file="$D/munge/munged.log" \
  --seed-file="$D/munge/munged.seed" --num-threads=2

# --- slurm.conf ---
: > "$D/plugstack.conf"
{
  cat <<CONF
ClusterName=loopback
SlurmctldHost=$HOST(127.0.0.1)
SlurmctldPort=$BASE
CommunicationParameters=NoInAddrAny,NoCtldInAddrAny
AuthType=auth/munge
AuthInfo=socket=$D/run/munge/munge.socket
CredType=cred/munge
SlurmUser=root
SlurmdUser=root
SlurmctldPidFile=$D/run/slurmctld.pid
SlurmctldLogFile=$D/log/slurmctld.log
StateSaveLocation=$D/state
SlurmdPidFile=$D/run/slurmd-%n.pid
SlurmdLogFile=$D/log/slurmd-%n.log
SlurmdSpoolDir=$D/run/spool-%n
TmpFS=$D/run/tmp-%n
SlurmdParameters=config_overrides
ProctrackType=proctrack/linuxproc
TaskPlugin=task/none
JobAcctGatherType=jobacct_gather/none
AccountingStorageType=accounting_storage/none
MpiDefault=none
SwitchType=switch/none
PlugStackConfig=$D/plugstack.conf
MailProg=/bin/true
JobSubmitPlugins=lua
SelectType=select/cons_tres
SelectTypeParameters=CR_CPU
SchedulerType=sched/builtin
SchedulerParameters=sched_interval=1
GresTypes=gpu
ReturnToService=2
SlurmctldTimeout=600
SlurmdTimeout=600
MessageTimeout=100
InactiveLimit=0
KillWait=2
MinJobAge=60
UnkillableStepTimeout=600
CONF
  for ((i = 1; i <= NODES; i++)); do
    where="NodeHostname=$HOST NodeAddr=127.0.0.1"
    [ "$UTS" = 0 ] || where="NodeHostname=node$i NodeAddr=127.0.0.$((i + 1))"
    echo "NodeName=node$i $where Port=$((BASE + i)) CPUs=$CPUS Boards=1 SocketsPerBoard=1 CoresPerSocket=$CPUS ThreadsPerCore=1 RealMemory=1000 Gres=gpu:$GPUS State=UNKNOWN"
  done
  echo "PartitionName=test Nodes=node[1-$NODES] Default=YES MaxTime=INFINITE DefaultTime=10 OverSubscribe=NO State=UP"
} > "$D/slurm.conf"

# --- gres.conf: slurmd 22.05 discards gpu records without File=. Device nodes
# like /dev/null stand in; their trailing numbers become CUDA_VISIBLE_DEVICES.
for ((i = 0; i < GPUS; i++)); do
  [ -e "$D/gpu/gpu$i" ] || mknod "$D/gpu/gpu$i" c 1 3
done
echo "NodeName=node[1-$NODES] Name=gpu File=$D/gpu/gpu[0-$((GPUS - 1))]" > "$D/gres.conf"

# --- accounts: without an accounting database Slurm checks none, so this script refuses
# every account but "test" the way that Slurm does (2045 is its error code)
cat > "$D/job_submit.lua" <<'LUA'
function slurm_job_submit(job, partitions, uid)
  if job.account ~= nil and job.account ~= "test" then return 2045 end
  return slurm.SUCCESS
end
function slurm_job_modify(job, record, partitions, uid) return slurm.SUCCESS end
return slurm.SUCCESS
LUA

# --- daemons: each forks into the background and writes its pid file ---
export SLURM_CONF=$D/slurm.conf
slurmctld -c
# Another process may have its port. A slurmd would wait long for that one's answer.
limit=2
until [[ $(timeout "$limit" scontrol ping 2>/dev/null) == *"is UP"* ]]; do
  if grep -h 'Address already in use' "$D"/log/slurmctld.log >&2; then exit 1; fi
  limit=$((limit < 50 ? 2 * limit : 100))
  [ "$SECONDS" -lt 600 ] || { tail -n 20 "$D"/log/*.log >&2; exit 1; }
  sleep 0.05
done
{
  echo "127.0.0.1 localhost $HOST"
  for ((i = 1; i <= NODES; i++)); do echo "127.0.0.$((i + 1)) node$i"; done
} > "$D/hosts"
for ((i = 1; i <= NODES; i++)); do
  mkdir -p "$D/run/spool-node$i" "$D/run/tmp-node$i"
  if [ "$UTS" = 0 ]; then
    slurmd -N "node$i"
  else
    # shellcheck disable=SC2016
    unshare --uts --mount sh -ec '
      hostname "$1"; mount --bind "$2" /etc/hosts; exec slurmd -N "$1"
    ' sh "node$i" "$D/hosts"
  fi
done

# --- wait until every node is idle ---
for ((end = SECONDS + 600; SECONDS < end; )); do
  if grep -h 'Address already in use' "$D"/log/*.log >&2; then exit 1; fi
  # a daemon that could not bind dies after it has forked; pid 1 may be slow
  # to reap it, so look for a zombie too
  for f in "$D"/run/*.pid; do
    pid=$(cat "$f" 2>/dev/null || echo gone)
    [ -n "$pid" ] || continue  # the daemon has made the file and not yet written it
    if ! grep -q '^State:[[:space:]]*[^Z]' "/proc/$pid/status" 2>/dev/null; then
      echo "up.sh: the daemon of $f died" >&2
      tail -n 20 "$D"/log/*.log >&2
      exit 1
    fi
  done
  n=$({ timeout 100 sinfo -h -N -t idle -o %N 2>/dev/null || true; } | sort -u | wc -l)
  if [ "$n" = "$NODES" ]; then exit 0; fi
  sleep 0.1
done
echo "up.sh: nodes did not become idle" >&2
timeout 5 sinfo -N -l >&2 || true
tail -n 20 "$D"/log/*.log >&2
exit 1
