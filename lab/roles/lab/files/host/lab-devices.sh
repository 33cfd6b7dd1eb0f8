#!/bin/sh
# Device nodes with the driver's numbers (major 195), and the address under which containers reach this host's registry.
set -eu
node() { [ -e "$1" ] || mknod -m 666 "$1" c "$2" "$3"; }
minor=0
while [ "$minor" -lt "${LAB_GPUS:?}" ]; do
  node "/dev/nvidia$minor" 195 "$minor"
  minor=$((minor + 1))
done
node /dev/nvidiactl 195 255
# kubelet does not start without it.
node /dev/kmsg 1 11
# Docker's bridges come and go with their addresses; one on the loopback device stays.
ip address replace "${LAB_ADDRESS:?}/32" dev lo
# The toolkit finds the driver's library in the linker's cache.
ldconfig
# A kernel without nftables has the older tables alone. Rules can be listed in any case.
if iptables-nft --table raw --new-chain probe 2> /dev/null; then
  iptables-nft --table raw --delete-chain probe
else
  for program in iptables ip6tables; do
    update-alternatives --quiet --set "$program" "/usr/sbin/$program-legacy"
  done
fi
