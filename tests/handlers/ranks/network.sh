#!/usr/bin/env bash
# Runs a program as processes on two hosts: bash tests/handlers/ranks/network.sh MPIEXEC PROCESSES PROGRAM [argument...]
# The hosts are network namespaces of this machine, with names and addresses of their own, joined by
# a virtual cable (veth). The processes communicate by TCP, between the hosts and on each host.
# Needs root; exits with 77 if it cannot run.
set -euo pipefail
mpiexec=$1 processes=$2
shift 2

skip() {
  echo "skipped: $1"
  exit 77
}
((EUID == 0)) || skip "namespaces take root"
command -v ip >/dev/null || skip "there is no ip (package iproute2)"

hosts=stave$$
folder=$(mktemp -d)
clean_up() {
  ip netns del "$hosts.1" 2>/dev/null || true
  ip netns del "$hosts.2" 2>/dev/null || true
  rm -rf -- "$folder"
}
trap clean_up EXIT
{
  ip netns add "$hosts.1" && ip netns add "$hosts.2" &&
    ip link add cable netns "$hosts.1" type veth peer name cable netns "$hosts.2"
} 2>"$folder/why" || skip "$(cat -- "$folder/why")"
for host in 1 2; do
  ip -n "$hosts.$host" address add "10.77.0.$host/24" dev cable
  ip -n "$hosts.$host" link set cable up
  ip -n "$hosts.$host" link set lo up
  echo "10.77.0.$host slots=$processes" >>"$folder/hosts"
done

# Like ssh, takes an address and a command for its shell. The hosts have names of their own, because
# MPI would use shared memory between hosts of one name.
cat >"$folder/on" <<END
#!/usr/bin/env bash
host=\${1##*.}
shift
exec ip netns exec $hosts.\$host unshare --uts bash -c "hostname stave-\$host && \$*"
END
chmod +x "$folder/on"

export OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1
by_network=(--mca plm_rsh_agent "$folder/on" --mca oob_tcp_if_include cable
  --mca pml ob1 --mca btl tcp,self --mca btl_tcp_if_include cable --mca mpi_yield_when_idle 1)
"$folder/on" 10.77.0.1 "$(printf '%q ' "$mpiexec" --hostfile "$folder/hosts" "${by_network[@]}" \
  --map-by node --bind-to none -np "$processes" "$@")"
