# shellcheck shell=bash
# Source this file, with errexit: a Debian with systemd and cgroup v2, root of which has all capabilities. boot_uml needs what tools/activate sets.
#   unpack FOLDER RELEASE PACKAGE…     its files in FOLDER/root, to add to; FOLDER/key opens it
#   boot FOLDER DISK MEMORY FORWARD…   it starts in QEMU: FORWARD is HERE:THERE, ports of this machine's loopback and of that one
#   boot_uml FOLDER DISK MEMORY        or as a program, User Mode Linux, with one processor: what computes is as fast as here, but a program starts
#                                      in 6 ms. It has a network of its own with this machine, by which it reaches what this one does
#   inside FOLDER PORT SCRIPT          runs a script in it; PORT leads to its port 22, which in User Mode Linux is 22
#   await FOLDER PORT                  until it answers
#   stop FOLDER                        it ends, and its network goes

# Of the kernel of User Mode Linux.
CONFIG=$(realpath "${BASH_SOURCE[0]%/*}/uml.config")
# The network of User Mode Linux has these two addresses alone.
TAP=kubegpu-tap HERE=10.213.0.1 THERE=10.213.0.2

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
    chroot "$folder/root" systemctl --quiet enable systemd-networkd ssh
    cp "$folder"/root/boot/{vmlinuz,initrd.img}-* "$folder"
}

# Make the disk of the files.
_disk() { # FOLDER DISK
    /sbin/mkfs.ext4 -q -d "$1/root" "$1/disk" "$2"
    rm -r "$1/root"
}

boot() {
    local folder=$1 disk=$2 memory=$3 forward=() processor=(-accel "tcg,thread=multi" -cpu max) ports
    ! has_kvm || processor=(-accel kvm -cpu host)
    # Of QEMU's own network.
    echo nameserver 10.0.2.3 >"$folder/root/etc/resolv.conf"
    printf '[Match]\nName=eth0\n[Network]\nDHCP=yes\n' >"$folder/root/etc/systemd/network/eth0.network"
    _disk "$folder" "$disk"
    for ports in "${@:4}"; do
        forward+=("hostfwd=tcp:127.0.0.1:${ports%:*}-:${ports#*:}")
    done
    echo 127.0.0.1 >"$folder/address"
    qemu-system-x86_64 "${processor[@]}" -smp 2 -m "$memory" -display none -daemonize -pidfile "$folder/pid" -serial "file:$folder/console" \
        -kernel "$folder"/vmlinuz-* -initrd "$folder"/initrd.img-* -append "root=/dev/vda rw console=ttyS0 net.ifnames=0" \
        -drive "file=$folder/disk,format=raw,if=virtio,cache=unsafe" \
        -netdev "user,id=net,$(IFS=,; echo "${forward[*]}")" -device virtio-net,netdev=net
}

# Build User Mode Linux, once. Debian's own program lacks nftables for IP, and in a stable release it lacks seccomp, with which it is twice as fast.
_uml() { # PROGRAM FOLDER
    local folder=$2/kernel
    # A mirror may be older than a suite that still changes allows.
    mmdebstrap --quiet --variant=extract --aptopt='Acquire::Check-Valid-Until "false"' --include=linux-source forky "$folder"
    tar --extract --directory "$folder" --strip-components=1 --file "$folder"/usr/src/linux-source-*.tar.xz
    cp "$CONFIG" "$folder/arch/um/configs/machine.config"
    make --silent --directory "$folder" ARCH=um x86_64_defconfig machine.config >/dev/null
    # An option may have another name in a newer kernel.
    if grep --invert-match --line-regexp --fixed-strings --file "$folder/.config" <(grep '=y$' "$CONFIG"); then
        echo "machine: the kernel does not have these options" >&2
        return 1
    fi
    make --silent --directory "$folder" ARCH=um --jobs "$(nproc)" linux
    install -D "$folder/linux" "$1.new"
    mv "$1.new" "$1"
    rm -r "$folder"
}

boot_uml() {
    local folder=$1 disk=$2 memory=$3 root=$1/root program cpu
    program=$KUBEGPU_CACHE/uml/$(sha256sum <"$CONFIG" | cut --characters=-12)
    [[ -e $program ]] || _uml "$program" "$folder"
    cp --dereference /etc/resolv.conf "$root/etc/resolv.conf"
    printf '[Match]\nName=vec0\n[Network]\nAddress=%s/30\nGateway=%s\n' $THERE $HERE >"$root/etc/systemd/network/vec0.network"
    _clock "$root"
    _disk "$folder" "$disk"
    _network --append
    echo $THERE >"$folder/address"
    # Its kernel and its programs wait for each other at each call of the system, which takes five times as long between two processors.
    cpu=$(sed --quiet 's/^Cpus_allowed_list:\t\([0-9]*\).*/\1/p' /proc/self/status)
    TMPDIR=/dev/shm setsid taskset --cpu-list "$cpu" "$program" seccomp=on "mem=$memory" "uml_dir=$folder/uml" umid=machine "ubd0=$folder/disk" \
        root=/dev/ubda rw con=null con0=null,fd:1 "vec0:transport=tap,ifname=$TAP,depth=128,gro=1" </dev/null >"$folder/console" 2>&1 &
    echo $! >"$folder/pid"
}

# kubelet ends where /proc/cpuinfo has no speed, as in User Mode Linux: nodes of kind get one with a speed.
_clock() { # ROOT
    cat >"$1/usr/local/sbin/clock-of-nodes" <<'END'
#!/bin/bash
{ sed '/^$/d' /proc/cpuinfo; printf 'cpu MHz\t\t: 2000.000\n\n'; } >/run/cpuinfo
while sleep 2; do
    for pid in $(pgrep --exact systemd); do
        node=/proc/$pid/root
        [[ -e $node/kind/version ]] && ! grep --quiet MHz $node/proc/cpuinfo || continue
        cp /run/cpuinfo $node/run/cpuinfo
        nsenter --mount --target "$pid" mount --bind /run/cpuinfo /proc/cpuinfo
    done
done
END
    chmod 755 "$1/usr/local/sbin/clock-of-nodes"
    printf '[Service]\nExecStart=/usr/local/sbin/clock-of-nodes\n[Install]\nWantedBy=multi-user.target\n' >"$1/etc/systemd/system/clock-of-nodes.service"
    chroot "$1" systemctl --quiet enable clock-of-nodes
}

# Make the network of User Mode Linux, or take it away.
_network() { # --append|--delete
    local rule=(--match comment --comment "$TAP" --jump)
    if [[ $1 == --append ]]; then
        ip tuntap add dev $TAP mode tap
        ip address add $HERE/30 dev $TAP
        ip link set $TAP up
    else
        ip link delete $TAP
    fi
    iptables --table nat "$1" POSTROUTING --source $THERE "${rule[@]}" MASQUERADE
    # Before Docker's own rules, which let nothing else through.
    iptables "${1/append/insert}" FORWARD --in-interface $TAP "${rule[@]}" ACCEPT
    iptables "${1/append/insert}" FORWARD --out-interface $TAP "${rule[@]}" ACCEPT
}

inside() {
    ssh -i "$1/key" -p "$2" -o StrictHostKeyChecking=no -o UserKnownHostsFile=/dev/null -o LogLevel=ERROR -o ConnectTimeout=30 \
        "root@$(<"$1/address")" "set -euo pipefail; $3"
}

await() {
    for _try in {1..300}; do
        inside "$1" "$2" true 2>/dev/null && return
        kill -0 "$(<"$1/pid")" || break
        sleep 1
    done
    tail -n 40 "$1/console"
    return 1
}

stop() {
    [[ -e $1/pid ]] || return 0
    if [[ $(<"$1/address") == "$THERE" ]]; then
        kill -KILL -- "-$(<"$1/pid")" || true
        _network --delete
    else
        kill "$(<"$1/pid")"
    fi
}
