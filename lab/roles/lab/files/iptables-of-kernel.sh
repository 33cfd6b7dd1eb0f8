#!/bin/sh
# Have iptables take the tables that the kernel has, as in upstream's images with it; by itself Debian's takes nftables alone.
set -eu
root=$1
for program in iptables ip6tables; do
  for suffix in "" -save -restore; do
    cat > "$root/usr/local/sbin/$program$suffix" << END
#!/bin/sh
if [ ! -e /run/tables ]; then
  # Rules can be listed in any case.
  if $program-nft --table raw --new-chain probe 2> /dev/null; then
    $program-nft --table raw --delete-chain probe
    echo nft > /run/tables
  else
    echo legacy > /run/tables
  fi
fi
exec /usr/sbin/$program-\$(cat /run/tables)$suffix "\$@"
END
    chmod 755 "$root/usr/local/sbin/$program$suffix"
  done
done
