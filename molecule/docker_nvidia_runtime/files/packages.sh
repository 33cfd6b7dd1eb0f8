#!/bin/sh
# Moves the host's toolkit into packages with the names of NVIDIA's: packages.sh FOLDER VERSION
set -eu
folder=$1 version=$2
package() {
  root=$folder/$1
  mkdir -p "$root/DEBIAN" "$root/usr/bin" "$root/usr/share/$1"
  # A package without a file of its own is taken for replaced.
  echo "$version" > "$root/usr/share/$1/version"
  for program in $2; do mv "/usr/bin/$program" "$root/usr/bin/"; done
  printf 'Package: %s\nVersion: %s-1\nArchitecture: all\nMaintainer: nobody <nobody@example.com>\nDescription: double\nDepends: %s\n' \
    "$1" "$version" "$3" | sed '/^Depends: $/d' > "$root/DEBIAN/control"
}
package libnvidia-container1 "" ""
package libnvidia-container-tools "" libnvidia-container1
package nvidia-container-toolkit-base "nvidia-ctk nvidia-container-runtime nvidia-cdi-hook" ""
package nvidia-container-toolkit nvidia-container-runtime-hook "libnvidia-container-tools, nvidia-container-toolkit-base"
# As the real one does.
cat > "$folder/nvidia-container-toolkit-base/DEBIAN/postinst" <<'POSTINST'
#!/bin/sh
mkdir -p /etc/nvidia-container-runtime
nvidia-ctk --quiet config --config-file=/etc/nvidia-container-runtime/config.toml --in-place
POSTINST
chmod 755 "$folder/nvidia-container-toolkit-base/DEBIAN/postinst"
for name in libnvidia-container1 libnvidia-container-tools nvidia-container-toolkit-base nvidia-container-toolkit; do
  dpkg-deb --build -Znone --root-owner-group "$folder/$name" "$folder/${name}_$version-1_all.deb" > /dev/null
done
