#!/bin/sh
# The lab's double of kindnet: a subnet a node, routed between its pods too, one static route a peer, masquerading for the rest.
set -eu
: "${NODE_NAME:?}" "${POD_SUBNET:?}"
conf=/etc/cni/net.d/10-lab.conflist
while true; do
  nodes=$(kubectl get nodes --output \
    'jsonpath={range .items[*]}{.metadata.name} {.spec.podCIDR} {.status.addresses[?(@.type=="InternalIP")].address}{"\n"}{end}') || nodes=
  echo "$nodes" | while read -r name subnet address; do
    [ -n "$subnet" ] && [ -n "$address" ] || continue
    if [ "$name" != "$NODE_NAME" ]; then
      ip route replace "$subnet" via "$address"
    elif ! grep -qs "$subnet" "$conf"; then
      cat > "$conf.new" <<EOF
{"cniVersion": "0.4.0", "name": "lab", "plugins": [
  {"type": "ptp", "ipMasq": false,
   "ipam": {"type": "host-local", "ranges": [[{"subnet": "$subnet"}]], "routes": [{"dst": "0.0.0.0/0"}]}},
  {"type": "portmap", "capabilities": {"portMappings": true}}]}
EOF
      mv "$conf.new" "$conf"
    fi
  done
  rule="POSTROUTING -s $POD_SUBNET ! -d $POD_SUBNET -m comment --comment lab-cni -j MASQUERADE"
  # shellcheck disable=SC2086 # the rule is words
  iptables -w -t nat -C $rule 2> /dev/null || iptables -w -t nat -A $rule
  sleep 5
done
