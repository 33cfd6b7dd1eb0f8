#!/bin/sh
# A GPU host's services; what makes a container of it stands in the units.
set -eu
root=$1
for unit in lab-devices lab-proxy; do
  ln -s "/etc/systemd/system/$unit.service" "$root/etc/systemd/system/multi-user.target.wants/$unit.service"
done
# Role gateway runs HAProxy by a unit of its own.
rm -f "$root/etc/systemd/system/multi-user.target.wants/haproxy.service"
# Consoles and mounts belong to the machine around the container.
for unit in getty.target systemd-udevd.service systemd-binfmt.service sys-kernel-config.mount sys-kernel-debug.mount \
  sys-kernel-tracing.mount systemd-modules-load.service; do
  ln -sf /dev/null "$root/etc/systemd/system/$unit"
done
: > "$root/etc/machine-id"
