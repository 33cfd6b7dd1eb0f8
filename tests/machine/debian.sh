# shellcheck shell=bash
# Source this file, with errexit: a Debian with systemd and cgroup v2 in QEMU, root of which has all capabilities.
#   unpack FOLDER RELEASE PACKAGE…     its files in FOLDER/root, to add to; FOLDER/key opens it
#   boot FOLDER DISK MEMORY FORWARD…   it starts: FORWARD is HERE:THERE, ports of this machine's loopback and of that one
#   inside FOLDER PORT SCRIPT          runs a script in it; PORT leads to its port 22
#   await FOLDER PORT                  until it answers

# A processor without these has no KVM for any kernel, whatever /dev/kvm leads to.
has_kvm() { [[ -w /dev/kvm ]] && grep --quiet --word-regexp 'vmx\|svm' /proc/cpuinfo; }

unpack() {
    local folder=$1 release=$2 packages=(ca-certificates dbus iproute2 kmod linux-image-cloud-amd64 openssh-server procps systemd-sysv udev "${@:3}")
    ssh-keygen -q -t ed25519 -N "" -f "$folder/key"
    mmdebstrap --quiet --variant=minbase --include="$(IFS=,; echo "${packages[*]}")" "$release" "$folder/root.tar"
    mkdir -p "$folder/root"
    tar --extract --directory "$folder/root" --file "$folder/root.tar"
    rm "$folder/root.tar"
    install -D --mode=600 "$folder/key.pub" "$folder/root/root/.ssh/authorized_keys"
    echo machine >"$folder/root/etc/hostname"
    # Of QEMU's own network.
    echo nameserver 10.0.2.3 >"$folder/root/etc/resolv.conf"
    printf '[Match]\nName=eth0\n[Network]\nDHCP=yes\n' >"$folder/root/etc/systemd/network/eth0.network"
    chroot "$folder/root" systemctl --quiet enable systemd-networkd ssh
    cp "$folder"/root/boot/{vmlinuz,initrd.img}-* "$folder"
}

boot() {
    local folder=$1 disk=$2 memory=$3 forward=() processor=(-accel "tcg,thread=multi" -cpu max) ports
    ! has_kvm || processor=(-accel kvm -cpu host)
    /sbin/mkfs.ext4 -q -d "$folder/root" "$folder/disk" "$disk"
    rm -r "$folder/root"
    for ports in "${@:4}"; do
        forward+=("hostfwd=tcp:127.0.0.1:${ports%:*}-:${ports#*:}")
    done
    qemu-system-x86_64 "${processor[@]}" -smp 2 -m "$memory" -display none -daemonize -pidfile "$folder/pid" -serial "file:$folder/console" \
        -kernel "$folder"/vmlinuz-* -initrd "$folder"/initrd.img-* -append "root=/dev/vda rw console=ttyS0 net.ifnames=0" \
        -drive "file=$folder/disk,format=raw,if=virtio,cache=unsafe" \
        -netdev "user,id=net,$(IFS=,; echo "${forward[*]}")" -device virtio-net,netdev=net
}

inside() {
    ssh -i "$1/key" -p "$2" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=30 \
        root@127.0.0.1 "set -euo pipefail; $3"
}

await() {
    for _try in {1..300}; do
        inside "$1" "$2" true 2>/dev/null && return
        sleep 1
    done
    tail -n 40 "$1/console"
    return 1
}
