#!/bin/bash
# A machine of its own for one test: systemd as process 1 over a throw-away copy of this file system.
# Usage: box.sh WORKDIR CGROUP DIRECTORY...   (as root; ends with its systemd; the caller removes WORKDIR and CGROUP)
#
# Writes go to a tmpfs, are there after a reboot, and are gone with the box. Each DIRECTORY (an interpreter, the package)
# is there too, readable by every user of the box. A process namespace makes sure that nothing outlives it; no network
# but its own loopback.
set -eu
work=$1 cgroup=$2
shift 2
mkdir "$cgroup"
echo $BASHPID > "$cgroup/cgroup.procs"
export start=$(cat << 'END'
set -eu
work=$1 root=$1/root
shift
mount -t overlay -o "lowerdir=/,upperdir=$work/up,workdir=$work/spare" box "$root"
: > "$root/etc/machine-id"
echo box > "$root/etc/hostname"
rm -f "$root/etc/fstab"
mount -t proc proc "$root/proc"
mount -t sysfs -o ro sysfs "$root/sys"
mount -t cgroup2 cgroup2 "$root/sys/fs/cgroup"
mount -t tmpfs -o mode=755 dev "$root/dev"
for node in null zero full random urandom tty; do : > "$root/dev/$node"; mount --bind "/dev/$node" "$root/dev/$node"; done
mkdir "$root/dev/pts" "$root/dev/shm"
mount -t devpts -o newinstance,ptmxmode=0666 devpts "$root/dev/pts"
ln -s pts/ptmx "$root/dev/ptmx"
mount -t tmpfs shm "$root/dev/shm"
ln -s /proc/self/fd "$root/dev/fd"
for pair in 0:stdin 1:stdout 2:stderr; do ln -s "/proc/self/fd/${pair%%:*}" "$root/dev/${pair#*:}"; done
mount -t tmpfs -o mode=755 run "$root/run"
mount -t tmpfs -o mode=1777 tmp "$root/tmp"
for directory in "$@"; do
  above=$directory
  if [ -z "$(ls -A "$root$directory" 2> /dev/null)" ]; then  # hidden by the mounts above, or a mount of its own
    mkdir -p "$root$directory"
    mount --rbind "$directory" "$root$directory"
    above=$(dirname "$directory")  # the directory itself is the real one: its mode stays
  fi
  while [ "$above" != / ]; do chmod o+rx "$root$above" 2> /dev/null || true; above=$(dirname "$above"); done
done
hostname box
ip link set lo up 2> /dev/null || true
mkdir "$root/run/old"
cd "$root"
pivot_root . run/old
umount -l /run/old
rmdir /run/old
exec env -i container=other PATH=/usr/sbin:/usr/bin:/sbin:/bin /lib/systemd/systemd \
  --unit=basic.target --show-status=no --log-target=null < /dev/null
END
)
exec unshare --mount --propagation private bash -c '
work=$1
mount -t tmpfs -o size=512M box "$work"
mkdir "$work/up" "$work/spare" "$work/root"
while
  unshare --mount --propagation private --cgroup --pid --uts --ipc --net --fork --kill-child=SIGKILL \
    bash -c "$start" box "$@"
  [ $? = 129 ]  # the kernel ends process 1 of a namespace with SIGHUP for a reboot
do :; done' box "$work" "$@"
