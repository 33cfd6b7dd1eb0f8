#!/bin/sh
# What kind's images/base/Dockerfile does after installing packages, on Debian's own containerd.
set -eu
root=$1
rm -f "$root"/lib/systemd/system/multi-user.target.wants/* "$root"/etc/systemd/system/*.wants/* \
  "$root"/lib/systemd/system/local-fs.target.wants/* "$root"/lib/systemd/system/sockets.target.wants/*udev* \
  "$root"/lib/systemd/system/sockets.target.wants/*initctl* "$root"/lib/systemd/system/basic.target.wants/* \
  "$root"/lib/systemd/system/sysinit.target.wants/systemd-tmpfiles-setup.service
# kind gives a node 30 s to start, of which these take half where programs start slowly. They are for devices, kernel modules, and the first
# start of a machine.
rm -f "$root"/usr/lib/systemd/system-generators/*
for unit in kmod-static-nodes.service ldconfig.service sys-fs-fuse-connections.mount sys-kernel-config.mount \
  systemd-journal-catalog-update.service systemd-modules-load.service systemd-sysusers.service systemd-tmpfiles-setup-dev-early.service \
  systemd-tmpfiles-setup-dev.service systemd-update-done.service; do
  rm -f "$root/lib/systemd/system/sysinit.target.wants/$unit"
done
mkdir -p "$root/etc/systemd/journald.conf.d" "$root/etc/systemd/system/multi-user.target.wants" \
  "$root/etc/kubernetes/manifests" "$root/etc/containerd" "$root/opt/cni"
printf '[Journal]\nReadKMsg=no\n' > "$root/etc/systemd/journald.conf.d/kind.conf"
for unit in kubelet containerd undo-mount-hacks; do
  ln -s "/etc/systemd/system/$unit.service" "$root/etc/systemd/system/multi-user.target.wants/$unit.service"
done
ln -s /dev/null "$root/etc/systemd/system/systemd-binfmt.service"
[ -e "$root/sbin/init" ] || ln -s /usr/lib/systemd/systemd "$root/sbin/init"
for program in containerd ctr containerd-shim-runc-v2; do ln -s "/usr/bin/$program" "$root/usr/local/bin/$program"; done
ln -s /usr/lib/cni "$root/opt/cni/bin"
chroot "$root" ctr oci spec |
  jq '.hooks.createContainer += [{"path": "/kind/bin/mount-product-files.sh"}] | del(.process.rlimits)' \
    > "$root/etc/containerd/cri-base.json"
rm -f "$root/etc/machine-id" "$root/var/lib/dbus/machine-id"
: > "$root/etc/machine-id"
