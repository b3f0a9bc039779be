# SPDX-License-Identifier: BSD-3-Clause
"""Unmodified programs under kilim-vhca. Usage: launcher_test.py KILIM_VHCA CLIENT SECOND_CLIENT

SECOND_CLIENT is the client built with AddressSanitizer, or "-" where there is none.
"""

import contextlib
import glob
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import tempfile
import time
import unittest

sys.path.insert(0, os.path.dirname(os.path.abspath(__file__)))

import processes

LAUNCHER, CLIENT, ASAN_CLIENT = (a if a == "-" else os.path.abspath(a) for a in sys.argv[1:4])


def run(*words, options=(), **more):
    return subprocess.run([LAUNCHER, *options, "--", *words], capture_output=True, text=True,
                          timeout=60, **more)


def compiled(folder, name, *flags):
    """A program of one line, built as the flags say; its path."""
    path = os.path.join(folder, name)
    subprocess.run(["cc", "-x", "c", "-", "-o", path, *flags], input="int main(void){return 0;}",
                   text=True, check=True)
    return path


def program_of(pid):
    with open(f"/proc/{pid}/comm", encoding="utf-8") as f:
        return f.read().strip()


def state_of(pid):
    """`T` of a process that is stopped (proc(5))."""
    with open(f"/proc/{pid}/stat", encoding="utf-8") as f:
        return f.read().rsplit(")", 1)[1].split()[0]


def wait_until(true):
    end = time.monotonic() + 30
    while not true():
        if time.monotonic() > end:
            raise AssertionError("not within 30 s")
        time.sleep(0.01)


class Launcher(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.mkdtemp()
        os.environ["XDG_RUNTIME_DIR"] = self.folder

    def tearDown(self):
        self.assertEqual(glob.glob(self.folder + "/kilim-vhca.*"), [], "a device list was left")
        shutil.rmtree(self.folder)

    def good(self, *words, **more):
        done = run(*words, **more)
        self.assertEqual(done.returncode, 0, done.stderr)
        return done.stdout

    def refused(self, *words, code=2, **more):
        done = run(*words, **more)
        self.assertEqual(done.returncode, code)
        self.assertRegex(done.stderr, "^kilim-vhca: .+: .+\n$")

    def test_ibv_devices(self):
        """ibv_devices lists the devices asked for"""
        out = self.good("ibv_devices", options=["--devices", "2", "--name", "binder"])
        self.assertIn("binder0", out)
        self.assertIn("binder1", out)

    def test_ibv_devinfo(self):
        """ibv_devinfo -v ends well and shows an active Ethernet port with a RoCE v2 GID"""
        out = self.good("ibv_devinfo", "-v")
        for text in ("PORT_ACTIVE (4)", "Ethernet", "RoCE v2", "fw_ver:", "board_id:"):
            self.assertIn(text, out)

    def test_guids_agree(self):
        """sysfs and the device that was opened give the same node GUID"""
        said = self.good("sh", "-c", "ibv_devinfo && ibv_devices").replace(":", "").split()
        self.assertEqual(said[said.index("node_guid") + 1], said[-1])

    def test_traffic(self):
        """a busy-polling program moves data"""
        self.good(CLIENT, "traffic")

    def test_extended(self):
        """an extended completion queue is polled"""
        self.good(CLIENT, "extended")

    def test_dup(self):
        """a duplicated descriptor is imported"""
        self.good(CLIENT, "dup")

    def test_foreign(self):
        """files of others stay the kernel's"""
        self.good(CLIENT, "foreign")

    def test_fault_handler(self):
        """the program's own SIGSEGV handler gets its own faults only"""
        self.good(CLIENT, "fault")

    def test_fork(self):
        """200 forked children end, those that open a device have their own"""
        self.good(CLIENT, "fork")

    def test_vfork(self):
        """what a child of vfork closes stays open in its parent"""
        self.good(CLIENT, "vfork")

    def test_exit(self):
        """200 exits with live objects do not crash"""
        self.good("sh", "-c", f"i=0; while [ $i -lt 200 ]; do {CLIENT} exit || exit 1; "
                              "i=$((i+1)); done")

    def test_pipeline_children(self):
        """children of the command and pipelines have devices"""
        self.assertIn("PORT_ACTIVE", self.good("sh", "-c", "ibv_devinfo | grep PORT_ACTIVE"))

    def test_two_at_once(self):
        """two processes at once do not disturb each other"""
        both = [subprocess.Popen([LAUNCHER, CLIENT, "traffic"]) for _ in range(2)]
        self.assertEqual([p.wait(60) for p in both], [0, 0])

    def test_mount(self):
        """--sysfs mount shows the device in /sys/class, and the machine's interfaces still"""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        out = self.good("sh", "-c", "cat /sys/class/infiniband/vhca0/node_type "
                                    "/sys/class/net/lo/address; ibv_devinfo; echo [$SYSFS_PATH]",
                        options=["--sysfs", "mount"])
        for text in ("1: CA", "00:00:00:00:00:00", "PORT_ACTIVE", "[]"):
            self.assertIn(text, out)
        self.assertFalse(os.path.exists("/sys/class/infiniband/vhca0"))

    def test_interface(self):
        """--pci shows each port's interface in sysfs, with the number that the interface has, and it tells of the
        PCI function: where the machine has it, where a namespace of the launcher's has, and where no kernel does"""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        code = ("import array, fcntl, os, socket, struct\n"
                "place = os.environ.get('SYSFS_PATH', '/sys') + '/class/infiniband/vhca0/device/net'\n"
                "name, = os.listdir(place)\n"
                "where = place + '/' + name + '/'\n"
                "said = open(where + 'ifindex').read(), open(where + 'address').read()\n"
                "print(os.path.islink(where[:-1]), socket.if_nametoindex(name) == int(said[0]),\n"
                "      socket.if_indextoname(int(said[0])) == name, said[1].strip())\n"
                "info = array.array('B', struct.pack('I196x', 3))    # ETHTOOL_GDRVINFO\n"
                "request = struct.pack('16sP16x', name.encode(), info.buffer_info()[0])\n"
                "fcntl.ioctl(socket.socket(type=socket.SOCK_DGRAM), 0x8946, request)\n"
                "driver, bus, count = struct.unpack('4x32s64x32s48xI16x', info.tobytes())\n"
                "function = os.path.basename(os.path.realpath(place + '/..'))\n"
                "print(driver.rstrip(b'\\0').decode(), bus.rstrip(b'\\0').decode() == function, count > 20)")
        with contextlib.closing(socket.socket(type=socket.SOCK_DGRAM)) as ours:
            ours.bind(("127.0.0.1", 0))
            port = ours.getsockname()[1]
        weak = ["setpriv", "--inh-caps=-net_admin", "--bounding-set=-net_admin"]
        udp = ["--wire", f"udp:127.0.0.1:{port}:127.0.0.1:9"]
        for before, wire, link in (([], [], True), (weak, [], False), (weak, udp, False)):
            for sysfs in ("env", "mount"):
                # Under the weak the kernel gives no mount namespace but in a user namespace.
                with self.subTest(before=before, wire=wire, sysfs=sysfs):
                    done = subprocess.run(
                        [*before, LAUNCHER, "--pci", "--mac", "02:4b:4c:00:00:01", "--sysfs", sysfs, *wire, "--",
                         "/usr/bin/python3", "-c", code], capture_output=True, text=True, timeout=60)
                    self.assertEqual(done.stdout, f"{link} True True 02:4b:4c:00:00:01\nmlx5_core True True\n",
                                     done.stderr)

    def test_functions(self):
        """with --pci --sysfs mount /sys/bus/pci/devices has the device, and the machine's functions still"""
        if os.geteuid() != 0:
            self.skipTest("needs root")
        place = "/sys/bus/pci/devices"
        before = sorted(os.listdir(place)) if os.path.isdir(place) else []
        code = (f"import glob, os\nours, = glob.glob('{place}/*/infiniband/vhca0')\n"
                "function = ours.split('/')[5]\n"
                f"rest = sorted(os.listdir('{place}'))\nrest.remove(function)\n"
                "print(open(ours + '/../../vendor').read().strip(), rest,\n"
                f"      all(os.path.exists('{place}/' + name + '/vendor') for name in rest))")
        out = self.good("/usr/bin/python3", "-c", code, options=["--pci", "--sysfs", "mount"])
        self.assertEqual(out.strip(), f"0x15b3 {before} True")
        out = self.good("ls", place, options=["--sysfs", "mount"])
        self.assertEqual(sorted(out.split()), before)

    def test_access(self):
        """a device may be read and written, says access()"""
        code = ("import os\nnames = os.listdir('/sys/class/infiniband_verbs')\n"
                "mine = '/dev/infiniband/' + [n for n in names if n.startswith('uverbs')][0]\n"
                "print([os.access(p, m, effective_ids=e) for e in (False, True)\n"
                "       for p, m in ((mine, os.F_OK), (mine, os.R_OK | os.W_OK), (mine, os.X_OK),\n"
                "                    (mine + 'x', os.F_OK), ('/dev/null', os.R_OK))])")
        out = self.good("/usr/bin/python3", "-c", code, options=["--sysfs", "mount"])
        self.assertEqual(out.strip(), str([True, True, False, False, True] * 2))

    def test_journal(self):
        """--journal gets a line for what the device did"""
        journal = os.path.join(self.folder, "journal")
        self.good(CLIENT, "traffic", options=["--journal", journal])
        with open(journal) as lines:
            self.assertGreater(sum("vhca0" in line for line in lines), 1000)

    def test_journal_on_a_full_disk(self):
        """a journal that cannot be written ends the command with an error and a sentence"""
        done = run(CLIENT, "traffic", options=["--journal", "/dev/full"])
        self.assertEqual(done.returncode, 74)
        self.assertIn("lines are missing in the journal /dev/full (No space left", done.stderr)
        os.mkfifo(self.folder + "/pipe")
        done = run(CLIENT, "traffic", options=["--journal", self.folder + "/pipe"])
        self.assertNotEqual(done.returncode, 0)
        self.assertIn("a pipe that nobody reads", done.stderr)

    def test_journal_of_children(self):
        """a journal's name is the launcher's: children elsewhere write the same file"""
        self.good("sh", "-c", "mkdir other && cd other && exec ibv_devinfo", cwd=self.folder,
                  options=["--journal", "lines.json"])
        with open(os.path.join(self.folder, "lines.json")) as lines:
            self.assertEqual([json.loads(line)["device"] for line in lines][-1], "vhca0")

    def test_no_device_opened(self):
        """a program that opens no device has no thread and no descriptor of ours"""
        out = self.good("sh", "-c", "ls /proc/self/task | wc -l; ls -l /proc/self/fd")
        self.assertEqual(out.split()[0], "1")
        self.assertNotIn("kilim", out)
        self.assertNotIn("userfaultfd", out)

    def test_exit_status(self):
        """the command's exit status and its signal are passed on"""
        self.assertEqual(run("sh", "-c", "exit 7").returncode, 7)
        self.assertEqual(run("sh", "-c", "kill -TERM $$").returncode, -signal.SIGTERM)

    def test_signals(self):
        """a signal sent to the launcher reaches the command"""
        with subprocess.Popen([LAUNCHER, "sh", "-c", "trap 'exit 9' USR1; echo up; while :; do sleep 0.01; "
                               "done"], stdout=subprocess.PIPE, text=True) as p:
            self.assertEqual(p.stdout.readline(), "up\n")
            p.send_signal(signal.SIGUSR1)
            self.assertEqual(p.wait(10), 9)

    def test_stops(self):
        """a command that is stopped stops the launcher, and goes on with it, whoever was halted first"""
        p = subprocess.Popen([LAUNCHER, "--", "cat"], stdin=subprocess.PIPE)
        self.addCleanup(p.stdin.close)
        wait_until(lambda: len(processes.family(p.pid)) == 2)
        command = processes.family(p.pid)[1]
        wait_until(lambda: program_of(command) == "cat")
        for halted in ([command], [p.pid, command]):
            for one in halted:
                os.kill(one, signal.SIGSTOP)
            for one in (command, p.pid):
                wait_until(lambda one=one: state_of(one) == "T")
            os.kill(p.pid, signal.SIGCONT)
            wait_until(lambda: "T" not in (state_of(p.pid), state_of(command)))
        p.stdin.close()
        self.assertEqual(p.wait(60), 0)

    def test_preload_is_kept(self):
        """an LD_PRELOAD that was there stays, and ours is the last"""
        # The launcher itself may be built with AddressSanitizer.
        out = self.good("sh", "-c", "echo $LD_PRELOAD",
                        env={**os.environ, "LD_PRELOAD": "libpthread.so.0",
                             "ASAN_OPTIONS": "detect_leaks=0:verify_asan_link_order=0"})
        self.assertRegex(out.strip(), "^([^:]*libasan[^:]*:)?libpthread.so.0:[^:]*/libkilim-vhca.so$")

    def test_asan(self):
        """a program built with AddressSanitizer gets its library first"""
        if ASAN_CLIENT == "-":
            self.skipTest("no compiler for it")
        self.good(ASAN_CLIENT, "traffic", env={**os.environ, "ASAN_OPTIONS": "detect_leaks=0"})

    def test_static_is_refused(self):
        """a static command, and a script with a static interpreter, are refused"""
        static = compiled(self.folder, "static", "-static")
        self.refused(static)
        script = os.path.join(self.folder, "script")
        with open(script, "w") as text:
            text.write(f"#!{static}\n")
        os.chmod(script, 0o755)
        self.refused(script)

    def test_setuid_is_refused(self):
        """a setuid command, and one with file capabilities, are refused"""
        program = compiled(self.folder, "dynamic")
        self.good(program)
        for mode in (0o4755, 0o2755):
            os.chmod(program, mode)
            self.refused(program)
        os.chmod(program, 0o755)
        try:
            # Version 2, effective, CAP_NET_RAW.
            os.setxattr(program, "security.capability",
                        bytes.fromhex("0100000200200000000000000000000000000000"))
        except OSError:
            return  # an ordinary user may not
        self.refused(program)

    def test_nested_scripts(self):
        """scripts of scripts are started, but none deeper than the kernel would go"""
        below = "/bin/sh"
        for depth in range(5):
            script = os.path.join(self.folder, f"script{depth}")
            with open(script, "w") as text:
                text.write(f"#!{below}\n")
            os.chmod(script, 0o755)
            (self.refused if depth == 4 else self.good)(script)
            below = script

    def test_other_architecture_is_refused(self):
        """a program of another architecture is refused"""
        program = compiled(self.folder, "other")
        with open(program, "r+b") as image:
            image.seek(18)
            image.write(bytes([0x08, 0x00]))  # MIPS
        self.refused(program)

    def test_not_found(self):
        """a command that is not there is 127"""
        self.refused("no-such-command-anywhere", code=127)

    def test_options(self):
        """unknown and bad options are refused with a sentence"""
        for options in (["--nonsense", "1"], ["--devices", "0"], ["--devices", "x"],
                        ["--profile", "none"], ["--name", "a b"], ["--sysfs", "where"], ["--lint", "loud"],
                        ["--seed", "-1"], ["--wire", "a,b"], ["--wire", "pigeon:loft"],
                        ["--wire", "pcap:"], ["--wire", "pcap:a+b"], ["--fault", "fatal@0"],
                        ["--fault", "fatal"], ["--wire", "cable:a", "--wire", "cable:b"],
                        ["--profile", "infiniband", "--wire", "cable:a"],
                        *(["--wire", f"unix:/tmp/none+fault:{rate}"] for rate in
                          ("drop:nan", "drop:1e308", "dup:-0.1", "reorder:inf", "corrupt:x", "drop:",
                           "", "seed:-1", "lose:0.1")),
                        ["--mac", "03:00:00:00:00:01"], ["--mac", "02:00:00:00:01"],
                        ["--gid", "fe80::1"], ["--gid", "ff02::1"],
                        ["--shared", "--wire", "cable:a"],
                        ["--shared", "--profile", "infiniband"]):
            self.refused("true", options=options)
        self.assertEqual(subprocess.run([LAUNCHER], capture_output=True).returncode, 2)

    def test_folder_of_others(self):
        """a wire's folder that others own or enter is refused, the default one and a named one"""
        for name, options in (("kilim", ()),
                              ("named", ("--wire", "unix:" + self.folder + "/named+fault:drop:0"))):
            folder = os.path.join(self.folder, name)
            os.mkdir(folder, 0o700)
            self.good("true", options=options)
            for mode in (0o770, 0o702, 0o755):
                os.chmod(folder, mode)
                self.refused("true", options=options)
            os.chmod(folder, 0o700)
            if os.geteuid() == 0:
                os.chown(folder, 65534, 65534)
                self.refused("true", options=options)
                os.chown(folder, 0, 0)

    def test_leftovers(self):
        """sockets that nobody holds are removed, of a wire with decorators too"""
        folder = os.path.join(self.folder, "wire")
        os.mkdir(folder, 0o700)
        path = os.path.join(folder, "0")
        with open(os.path.join(folder, "slot-0"), "w"), \
                socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
            left.bind(path)
        for more in ("", "+fault:drop:0"):
            self.good("true", options=["--wire", "unix:" + folder + more])
            self.assertFalse(os.path.exists(path))
            with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as left:
                left.bind(path)

    def test_help(self):
        """--help names every option"""
        text = subprocess.run([LAUNCHER, "--help"], capture_output=True, text=True).stdout
        for option in ("--devices", "--profile", "--name", "--wire", "--seed", "--journal",
                       "--lint", "--sysfs", "COMMAND"):
            self.assertIn(option, text)


if __name__ == "__main__":
    program = unittest.main(argv=sys.argv[:1] + sys.argv[4:], verbosity=2, exit=False)
    for case, reason in program.result.skipped:
        print(f"skipped: {case}: {reason}")
    # Meson takes 77 for a skip: one that is hidden in a pass would be none.
    sys.exit(1 if not program.result.wasSuccessful() else 77 if program.result.skipped else 0)
