# SPDX-License-Identifier: BSD-3-Clause
"""A guest of QEMU that has Debian's kernel, rdma_rxe and a peer program, and nothing else.

Its whole file system is the initial RAM disk made here: no disk, no share of the machine's files.
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
/usr/bin/rdma link add rxe0 type rxe netdev eth0
for i in $(/bin/busybox seq 200); do
  [ -e /dev/infiniband/uverbs0 ] && /usr/bin/ip route get {gid} oif eth0 > /dev/null 2>&1 && break
  /bin/busybox usleep 50000
done
/peer rxe0 /dev/ttyS1
echo "the peer ended with $?"
/bin/busybox poweroff -f
"""


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


def make_disk(folder, kernel, peer, gid, mac):
    """The initial RAM disk: busybox, the modules in the order that they are loaded, programs with
    their libraries and libibverbs' provider. Gives its name."""
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
    put(root, "/peer", peer)
    for program in (tool("ip"), tool("rdma"), provider, peer):
        if program != peer:
            put(root, program)
        for library in libraries_of(program):
            put(root, library)
    for name in ("ip", "rdma"):
        if tool(name) != "/usr/bin/" + name:
            put(root, "/usr/bin/" + name, tool(name))
    put(root, "/etc/libibverbs.d/rxe.driver")
    with open(root + "/init", "w", encoding="ascii") as f:
        f.write(INIT.format(gid=gid, mac=mac))
    os.chmod(root + "/init", 0o755)
    names = subprocess.run(["find", ".", "-print0"], cwd=root, capture_output=True,
                           check=True).stdout
    with open(folder + "/disk", "wb") as disk:
        subprocess.run([tool("cpio"), "--quiet", "-0", "-o", "-H", "newc"], cwd=root, input=names,
                       stdout=disk, check=True)
    shutil.rmtree(root)
    return folder + "/disk"


class Guest:
    """The running guest; `stream` is the peer's input and output."""

    def __init__(self, folder, kernel, peer, gid, mac):
        self.console = folder + "/console"
        control = folder + "/control"
        disk = make_disk(folder, kernel, peer, gid, mac)
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
