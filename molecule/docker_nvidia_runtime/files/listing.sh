#!/bin/sh
# What a host is like, line by line: files, packages, sysctls, services, containers, Docker's settings.
for top in /etc /opt /usr/bin /usr/sbin /usr/local /usr/share/keyrings /var/lib/kubegpu /var/lib/docker; do
  [ -e "$top" ] || continue
  # Docker's own data live; what matters of them is asked for below.
  [ "$top" = /var/lib/docker ] && depth="-maxdepth 0" || depth=
  # shellcheck disable=SC2086
  find "$top" -xdev $depth -printf 'file %M %U:%G %p %l\n'
  # shellcheck disable=SC2086
  find "$top" -xdev $depth -type f -exec sha256sum {} +
done | sort -k 4
sysctl fs.inotify.max_user_instances fs.inotify.max_user_watches
dpkg-query --show --showformat='package ${Package} ${Version} ${db:Status-Status}\n'
systemctl list-unit-files --no-legend --no-pager
for unit in docker containerd docker-registry lab-proxy; do echo "service $unit $(systemctl is-active "$unit")"; done
docker ps --all --format 'container {{.Names}}'
docker volume ls --format 'volume {{.Name}}'
docker info --format 'docker {{.DefaultRuntime}} {{.LiveRestoreEnabled}} {{range $name, $_ := .Runtimes}} {{$name}}{{end}}'
docker info --format 'docker {{json .CDISpecDirs}}' 2> /dev/null || echo docker before CDI
