#!/bin/sh
# Give busybox its links, as the image of the same name has them.
set -eu
mkdir -p "$1/bin" "$1/tmp" "$1/etc"
mv "$1/usr/bin/busybox" "$1/bin/busybox"
"$1/bin/busybox" --list | while read -r applet; do [ -e "$1/bin/$applet" ] || ln -s busybox "$1/bin/$applet"; done
chmod 1777 "$1/tmp"
