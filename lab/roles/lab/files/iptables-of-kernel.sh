#!/bin/sh
# Have iptables take the tables that the kernel has, as in upstream's images with it; by itself Debian's takes nftables alone.
set -eu
root=$1
for program in iptables ip6tables; do
  for suffix in "" -save -restore; do
    cat > "$root/usr/local/sbin/$program$suffix" << END
#!/bin/sh
[ -e /run/tables ] || { $program-nft --table nat --list-rules > /dev/null 2>&1 && echo nft || echo legacy; } > /run/tables
exec /usr/sbin/$program-\$(cat /run/tables)$suffix "\$@"
END
    chmod 755 "$root/usr/local/sbin/$program$suffix"
  done
done
