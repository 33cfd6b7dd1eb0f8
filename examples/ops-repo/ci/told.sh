# shellcheck shell=bash
# Source this file.
#   told NAME COMMAND…     runs a command, has ci/alert tell where it fails, and returns its status. ALERT_LINK is an address of more
told() {
    local status=0
    "${@:2}" || status=$?
    ci/alert "$1" "$status" "${ALERT_LINK:-}"
    return "$status"
}
