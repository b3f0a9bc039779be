# SPDX-License-Identifier: BSD-3-Clause
"""A guest of QEMU that has Debian's kernel, rdma_rxe and a few programs, and nothing else.

Its whole file system is the initial RAM disk made here: no disk, no share of the machine's files.
On its second serial line it runs a peer program (peer.cc), or a shell (shell.py).
"""

import ctypes
import glob
import os
import re
import shutil
import signal
import socket
import subprocess
import time

MODULES = ("virtio_pci", "virtio_net", "crc32_generic", "ib_uverbs", "rdma_rxe", "rdma_ucm")
MAC = "02:4b:4c:ee:ee:02"
IP = "10.7.0.2"
BOOT_SECONDS = 120    # until the peer answers; a busy machine emulates slowly

INIT = """#!/bin/busybox sh
/bin/busybox mkdir -p /proc /sys /dev /run
/bin/busybox mount -t proc proc /proc
/bin/busybox mount -t sysfs sysfs /sys
/bin/busybox mount -t devtmpfs devtmpfs /dev
for module in /modules/*; do /bin/busybox insmod "$module"; done
echo 0 > /proc/sys/net/ipv6/conf/eth0/accept_dad
/usr/bin/ip link set eth0 mtu 9000 up
/usr/bin/ip neigh add {gid} lladdr {mac} dev eth0 nud permanent
/usr/bin/ip link set lo up
/usr/bin/ip addr add {ip}/24 dev eth0
/usr/bin/rdma link add rxe0 type rxe netdev eth0
for i in $(/bin/busybox seq 200); do
  [ -e /dev/infiniband/uverbs0 ] && /usr/bin/ip route get {gid} oif eth0 > /dev/null 2>&1 && break
  /bin/busybox usleep 50000
done
{run}
echo "the peer ended with $?"
/bin/busybox poweroff -f
"""
PEER = "/peer rxe0 /dev/ttyS1"
# Each line of the serial line is carried out; what it said comes back, then how it ended.
SHELL = """/bin/busybox --install -s /bin
export PATH=/bin:/usr/bin
stty -F /dev/ttyS1 raw -echo
exec 3<> /dev/ttyS1
echo "ok ready" >&3
while read -r line <&3; do
  eval "$line" > /run/out 2>&1 < /dev/null
  code=$?
  cat /run/out >&3
  echo "ended $code" >&3
done"""


def tool(name):
    path = shutil.which(name, path=os.environ.get("PATH", "") + ":/usr/sbin:/sbin")
    if path is None:
        raise RuntimeError(f"there is no {name}")
    return path


def end_with_parent(number=signal.SIGTERM):
    """Whatever ends the process that started this one ends this one too."""
    ctypes.CDLL(None).prctl(1, number)    # PR_SET_PDEATHSIG


def libraries_of(program):
    out = subprocess.run(["ldd", program], capture_output=True, text=True, check=True).stdout
    return re.findall(r"(/\S+) \(0x", out)


def put(root, path, source=None):
    target = root + path
    os.makedirs(os.path.dirname(target), exist_ok=True)
    shutil.copy(source or path, target)


def make_disk(folder, kernel, programs, neighbour, run):
    """The initial RAM disk: busybox, the modules in the order that they are loaded, `programs` (a
    file by its name in the guest) with their libraries and libibverbs' provider. Gives its name."""
    root = folder + "/root"
    version = os.path.basename(glob.glob(kernel + "/lib/modules/*")[0])
    subprocess.run([tool("depmod"), "-b", kernel, version], check=True)
    out = subprocess.run([tool("modprobe"), "-d", kernel, "-S", version, "--show-depends", "-a",
                          *MODULES], capture_output=True, text=True, check=True).stdout
    modules = list(dict.fromkeys(re.findall(r"^insmod (\S+)", out, re.M)))
    for number, module in enumerate(modules):
        put(root, f"/modules/{number:02}-{os.path.basename(module)}", module)
    provider = glob.glob("/usr/lib/*/libibverbs/librxe-rdmav*.so")[0]
    put(root, "/bin/busybox", tool("busybox"))
    programs = {provider: provider, "/usr/bin/ip": tool("ip"), "/usr/bin/rdma": tool("rdma"),
                **programs}
    for name, program in programs.items():
        put(root, name, program)
        for library in libraries_of(program):
            put(root, library)
    put(root, "/etc/libibverbs.d/rxe.driver")
    with open(root + "/init", "w", encoding="ascii") as f:
        f.write(INIT.format(gid=neighbour[0], mac=neighbour[1], ip=IP, run=run))
    os.chmod(root + "/init", 0o755)
    names = subprocess.run(["find", ".", "-print0"], cwd=root, capture_output=True,
                           check=True).stdout
    with open(folder + "/disk", "wb") as disk:
        subprocess.run([tool("cpio"), "--quiet", "-0", "-o", "-H", "newc"], cwd=root, input=names,
                       stdout=disk, check=True)
    shutil.rmtree(root)
    return folder + "/disk"


class Guest:
    """The running guest; `stream` is the input and output of what runs in it. `neighbour`: GID and
    MAC of who is at the other end of its wire."""

    def __init__(self, folder, kernel, programs, neighbour, run=PEER):
        self.console = folder + "/console"
        control = folder + "/control"
        disk = make_disk(folder, kernel, programs, neighbour, run)
        image = glob.glob(kernel + "/boot/vmlinuz-*")[0]
        self.process = subprocess.Popen(
            [tool("qemu-system-x86_64"), "-accel", "tcg", "-cpu", "max", "-machine", "q35",
             "-smp", "1", "-m", "512", "-nodefaults", "-no-reboot", "-display", "none",
             "-kernel", image, "-initrd", disk,
             "-append", "console=ttyS0 quiet panic=-1 mitigations=off random.trust_cpu=on",
             "-serial", "file:" + self.console,
             "-chardev", f"socket,id=control,path={control},server=on,wait=off",
             "-serial", "chardev:control",
             "-netdev", f"dgram,id=wire,local.type=unix,local.path={folder}/guest,"
                        f"remote.type=unix,remote.path={folder}/to-guest",
             "-device", f"virtio-net-pci,netdev=wire,mac={MAC},romfile="],
            stdin=subprocess.DEVNULL, preexec_fn=end_with_parent)
        try:
            self.stream = self.connect(control).makefile("rw", newline="\n")
        except BaseException:
            self.stop()
            raise

    def connect(self, path):
        end = time.monotonic() + BOOT_SECONDS
        line = socket.socket(socket.AF_UNIX)
        line.settimeout(BOOT_SECONDS)
        while True:
            try:
                line.connect(path)
                return line
            except OSError:
                if self.process.poll() is not None or time.monotonic() > end:
                    raise RuntimeError("QEMU does not start") from None
                time.sleep(0.02)

    def tell(self, kind, *_):
        """What the guest's kernel said, where something went wrong."""
        if kind is None or not issubclass(kind, (OSError, RuntimeError)):
            return
        try:
            with open(self.console, encoding="utf-8", errors="replace") as f:
                print(f.read()[-2000:])
        except OSError:
            print("the guest says nothing")

    def stop(self):
        self.process.kill()
        self.process.wait()
