#!/usr/bin/python3
# SPDX-License-Identifier: BSD-3-Clause
"""Installs into a folder and uses what lies there as a stranger would.

Usage: run_install.py ROOT BUILD VERSION WHAT   WHAT: programs, packages, vhca, documents, headers, examples, plugin, project or subproject"""

import concurrent.futures
import glob
import itertools
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

from staged import Staged, run

sys.path.insert(0, os.path.join(os.path.dirname(os.path.abspath(__file__)), "../style"))
import check_door

EAL = ["--no-huge", "--no-shconf", "--no-pci", "--no-telemetry", "-l", "0"]
FRAMES = 100


def abi(version):
    """What a SONAME says: the minor number too while the major one is 0."""
    major, minor = version.split(".")[:2]
    return f"0.{minor}" if major == "0" else major


def programs(root, staged, version):
    """All are there, say their version, start; the libraries are what their names say."""
    for name in ("kilim-testpmd", "kilim-perf", "kilim-vhca", "kilim-wqe", "kilim-exam"):
        said = staged.run(os.path.join(staged.bindir, name), "--version")
        assert said == f"{name} {version}\n", said
    for name in ("kilim", "kilim-static", "kilim_compat", "kilim_compat-static"):
        assert staged.flags("--modversion", name) == [version], name
    for name in ("kilim", "kilim_compat"):
        archive, library = (os.path.join(staged.libdir, f"lib{name}.{end}") for end in ("a", "so"))
        with open(archive, "rb") as f:
            assert f.read(8) == b"!<arch>\n", f"{archive} is a thin archive"
        assert os.path.realpath(library).endswith(f".so.{version}"), os.path.realpath(library)
        assert f"[lib{name}.so.{abi(version)}]" in run("readelf", "-d", library), "SONAME"
    said = staged.run(os.path.join(staged.bindir, "kilim-vhca"), "--", "ibv_devices")
    assert "vhca0" in said, said
    said = staged.run(os.path.join(staged.bindir, "kilim-perf"), *EAL, "--", "pool")
    assert " ns" in said, said
    print("programs, libraries, versions")
    tools(staged)


def tools(staged):
    """The scripts that guides name start by their names in the folder of programs, and find what they are made of."""
    share = os.path.join(staged.prefix, "share/kilim/usertools")
    recording = os.path.join(staged.folder, "none.wqe")
    for name, words, part in (("kilim-top.py", ["--help"], "kilim-top.py"), ("kilim-exporter.py", ["--help"], "kilim_up"),
                              ("kilim-wqe.py", ["print", recording], recording)):
        path = os.path.join(staged.bindir, name)
        assert os.path.realpath(path) == os.path.join(os.path.realpath(share), name), os.path.realpath(path)
        done = subprocess.run([path, *words], env=staged.env, capture_output=True, text=True, check=False, timeout=60)
        assert part in done.stdout + done.stderr and "quickstart" not in done.stderr, (name, done)
    for name in ("pcap_file.py", "kilim-dashboard.json"):
        assert os.path.exists(os.path.join(share, name)), name
    print("tools of the guides")


def vhca(root, staged, version):
    """A C99 program has the device by pkg-config kilim-vhca, and with it nothing of DPDK, Kilim or the C++ library."""
    assert staged.flags("--modversion", "kilim-vhca") == [version]
    library = os.path.join(staged.libdir, "libkilim_vhca.so")
    assert f"[libkilim_vhca.so.{abi(version)}]" in run("readelf", "-d", library), "SONAME"
    for at in (library, os.path.join(staged.libdir, "kilim/libkilim-vhca.so"), os.path.join(staged.bindir, "kilim-vhca")):
        needed = re.findall(r"NEEDED.*\[(.*)\]", run("readelf", "-d", at))
        assert not [name for name in needed if name.startswith(("librte_", "libnuma", "libkilim", "libibverbs"))], (at, needed)
    with open(os.path.join(root, "drivers/vhca/api/vhca.h"), encoding="utf-8") as f:
        declared = set(re.findall(r"^\w[^()\n]*\b(kilim_vhca_\w+)\(", f.read(), re.M))
    shown = set(re.findall(r"\b(kilim_vhca_\w+)@@KILIM_VHCA_0", run("readelf", "-W", "--dyn-syms", library)))
    assert declared == shown and len(shown) == 13, declared ^ shown
    for name, compiler in (("gcc", ["gcc", "-std=c99"]), ("clang", ["clang", "-std=c99"])):
        source = os.path.join(root, "test/install/vhca.c")
        at = staged.compile(compiler, source, f"{staged.folder}/vhca-{name}.o", "kilim-vhca", "-D_DEFAULT_SOURCE", "-Wall",
                            "-Wextra", "-Wpedantic", "-Werror")
        program = staged.link(compiler, at, at[:-2], "kilim-vhca", "-Wl,--no-as-needed", "-libverbs")
        for order in ("", "weak:3"):
            said = run(program, env={**staged.env, "KILIM_VHCA_ORDER": order})
            assert said.endswith(f"vhca {version}: right\n"), said
        told = run(os.path.join(staged.bindir, "kilim-vhca"), "--name=cdoor", "--", program, "launched", env=staged.env)
        assert told == "vhca: the launcher's\n", told
    print("the device by C99, by gcc and clang")


def documents(root, staged, version):
    """Each link of an installed document leads to something that is installed; the examples are there."""
    top, links, dead = os.path.join(staged.prefix, "share/doc/kilim"), 0, []
    for path in glob.glob(f"{top}/**/*.md", recursive=True):
        with open(path, encoding="utf-8") as f:
            for target in re.findall(r"\]\(([^)#\s]+)(?:#[^)\s]*)?\)", f.read()):
                links += 1
                if "://" not in target and not os.path.exists(os.path.join(os.path.dirname(path), target)):
                    dead.append(f"{os.path.relpath(path, top)}: {target}")
    assert links > 100 and not dead, (links, dead[:20])
    for name in ("README.md", "LICENSE", "doc/guides/umr.md", "examples/03_umr_gather.cc"):
        assert os.path.exists(os.path.join(top, name)), name
    print(f"{links} links, examples")


def patterns(root):
    """What each of Debian's packages takes of an installation below /usr: (package, pattern) rows of debian/*.install."""
    for path in sorted(glob.glob(os.path.join(root, "debian/*.install"))):
        with open(path, encoding="utf-8") as f:
            for word in f.read().split():
                yield os.path.basename(path).removesuffix(".install"), word


def packages(root, staged, version):
    """Each installed file is of one package, each line of debian/*.install takes one; names and version are this build's."""
    multiarch = os.path.join(staged.prefix, "lib", "triplet")
    rows, used, wrong = list(patterns(root)), set(), []
    for path in glob.glob(f"{staged.folder}/**/*", recursive=True):
        if os.path.isdir(path) and not os.path.islink(path):
            continue
        name = path if not path.startswith(staged.libdir + "/") else multiarch + path[len(staged.libdir):]
        name = os.path.join("usr", os.path.relpath(name, staged.prefix))
        if path == staged.plugin:   # its folder is DPDK's own, whatever the prefix
            name = os.path.join("usr/lib/triplet/dpdk/pmds-x", os.path.basename(path))
        takers = [row for row in rows if taken(name, row[1])]
        used.update(takers)
        if len({package for package, _ in takers}) != 1:
            wrong.append((name, takers))
    assert not wrong, wrong[:10]
    assert used == set(rows), set(rows) - used
    with open(os.path.join(root, "debian/changelog"), encoding="utf-8") as f:
        assert f.read().startswith(f"kilim ({version}-"), "debian/changelog has another version than meson.build"
    for library in ("libkilim", "libkilim-vhca"):
        assert library + abi(version) in {package for package, _ in rows}, f"no package {library}{abi(version)}"
    print(f"{len(rows)} lines of file lists fit what is installed")


def taken(name, pattern):
    """As dh_install reads a line: * stays in its folder, a folder takes what is below."""
    return re.fullmatch(re.escape(pattern).replace(r"\*", "[^/]*") + "(/.*)?", name) is not None


def headers(root, staged, version):
    """What is public is what the door has, and the example in each header's comment compiles with what is installed."""
    door = check_door.headers(root)
    include = os.path.join(staged.prefix, "include/kilim")
    there = {os.path.relpath(path, include) for path in glob.glob(f"{include}/**/*", recursive=True) if os.path.isfile(path)}
    public = {path for path in there if not path.startswith(("detail/", "prm/"))}
    assert public == {os.path.basename(path) for path in door}, public ^ {os.path.basename(path) for path in door}
    assert len(public) <= check_door.MOST, len(public)

    def compile_example(path):
        cc = path.endswith(".h")
        source = os.path.join(staged.folder, os.path.basename(path) + (".c" if cc else ".cc"))
        with open(source, "w", encoding="utf-8") as f:
            f.write(check_door.example(path))
        package = {"ibv_compat.h": "kilim_compat", "vhca.h": "kilim-vhca"}.get(os.path.basename(path), "kilim")
        staged.check(["gcc", "-std=c99"] if cc else ["g++", "-std=c++20"], source, package)

    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(compile_example, door))
    print(f"{len(door)} public headers, {len(there) - len(public)} behind them, each example compiles")


def forwards(root, staged, program, folder):
    """01_forward hands on every frame of one file to another."""
    os.mkdir(folder)
    make = os.path.join(root, "usertools/pcap_file.py")
    run(make, "make", os.path.join(folder, "in.pcap"), str(FRAMES))
    process = subprocess.Popen([program, *EAL, "--vdev", "net_kilim0,hca=vhca0,wire=pcap:in.pcap:out.pcap"], cwd=folder,
                               env=staged.env, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True)
    whole, got = os.path.getsize(os.path.join(folder, "in.pcap")), os.path.join(folder, "out.pcap")
    end = time.monotonic() + 60
    while process.poll() is None and time.monotonic() < end:
        if os.path.exists(got) and os.path.getsize(got) >= whole:
            break
        time.sleep(0.1)
    process.send_signal(signal.SIGINT)
    said = process.communicate(timeout=30)[0]
    assert process.returncode == 0 and f"received {FRAMES}, sent {FRAMES}," in said, said
    run(make, "compare", os.path.join(folder, "in.pcap"), os.path.join(folder, "out.pcap"))


def one_way(root, staged, version, way):
    """Examples 01 and 03 and the C program by one compiler, with asserts or without, in both kinds of linking."""
    family, asserts = way
    cxx, cc = (["g++", "-std=c++20"], ["gcc", "-std=c99"]) if family == "gcc" else (["clang++", "-std=c++20"],
                                                                                  ["clang", "-std=c99"])
    folder = os.path.join(staged.folder, "-".join(way))
    os.mkdir(folder)
    define = ["-DNDEBUG"] if asserts == "without" else []
    objects = {}
    for name in ("01_forward", "03_umr_gather"):
        objects[name] = staged.compile(cxx, os.path.join(root, "examples", name + ".cc"), f"{folder}/{name}.o", "kilim",
                                       *define)
    objects["relaxed"] = staged.compile(cc, os.path.join(root, "test/install/relaxed.c"), f"{folder}/relaxed.o",
                                        "kilim_compat", "-Wall", "-Wextra", "-Wpedantic", "-Werror", *define)
    for kind in ("", "-static"):
        made = {name: staged.link(cc if name == "relaxed" else cxx, at, at[:-2] + kind,
                                  ("kilim_compat" if name == "relaxed" else "kilim") + kind)
                for name, at in objects.items()}
        for at in made.values():
            needs = "libkilim" in run("readelf", "-d", at)
            assert needs == (kind == ""), f"{at}: libkilim is {'' if needs else 'not '}a shared library of it"
        assert "gathered" in staged.run(made["03_umr_gather"])
        alone = subprocess.run([made["relaxed"]], env=staged.env, capture_output=True, text=True, check=False, timeout=60)
        assert "no RDMA device" in alone.stderr or alone.returncode == 0, alone
        said = staged.run(os.path.join(staged.bindir, "kilim-vhca"), "--", made["relaxed"])
        assert said == "relaxed: right\n", said
        forwards(root, staged, made["01_forward"], f"{folder}/pcap{kind}")
    print(f"{family}, {asserts} asserts: built and run, shared and static")


def examples(root, staged, version):
    ways = itertools.product(("gcc", "clang"), ("with", "without"))
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        list(pool.map(lambda way: one_way(root, staged, version, way), ways))


def plugin(root, staged, version):
    """The driver is registered once, whatever the program links and loads."""
    assert staged.plugin, "there is no plugin"
    source = os.path.join(root, "test/install/ports.c")
    # Its own rte_vdev_register() is found by libraries that EAL loads, and finds DPDK's.
    common = ["-rdynamic", "-Wl,--no-as-needed", "-ldl", "-lrte_bus_vdev", "-Wl,--as-needed"]
    kinds = {}
    for kind, package in (("loaded", "libdpdk"), ("linked", "kilim"), ("static", "kilim-static")):
        define = ["-D_GNU_SOURCE"] + ([] if kind == "loaded" else ["-DLINKED"])
        object_file = staged.compile(["gcc"], source, f"{staged.folder}/{kind}.o", package, *define)
        kinds[kind] = staged.link(["gcc"], object_file, f"{staged.folder}/{kind}", package, *common)
    for kind, load in (("loaded", True), ("linked", False), ("linked", True), ("static", False), ("static", True)):
        words = ["-d", staged.plugin] if load else []
        said = staged.run(kinds[kind], *EAL, *words, "--vdev", "net_kilim0,hca=vhca0")
        expected = f"registered 1, ports 1, version {version if kind != 'loaded' else 'none'}\n"
        assert expected in said, (kind, load, said)
    said = subprocess.run([kinds["loaded"], *EAL, "--vdev", "net_kilim0,hca=vhca0"], env=staged.env, check=False,
                          capture_output=True, timeout=60)
    assert said.returncode != 0, "a port without the driver"
    print("the driver is registered once")
    found_without_a_word(staged, kinds["loaded"])


def found_without_a_word(staged, program):
    """EAL's own folder of plugins, where an installation puts ours: programs find it without -d, Debian's too."""
    ours = os.path.dirname(staged.plugin)
    there = ours[len(staged.folder):]  # what DESTDIR moved
    alone = next((words for words in (["unshare", "-m"], ["unshare", "-rm"])
                  if subprocess.run([*words, "true"], check=False, capture_output=True).returncode == 0), None)
    if alone is None or not os.path.isdir(there):
        print(f"not tried: the plugin in {there}, which takes a mount namespace")
        return
    inside = [*alone, "sh", "-c", 'mount -t overlay overlay -o "lowerdir=$1:$2" "$2" && shift 2 && exec "$@"', "sh", ours,
              there]
    vdev = ["--vdev", "net_kilim0,hca=vhca0"]
    said = staged.run(*inside, program, *EAL, *vdev)
    assert "registered 1, ports 1" in said, said
    if shutil.which("dpdk-testpmd") is not None:
        said = staged.run(*inside, "dpdk-testpmd", *EAL[:-1], "0-1", *vdev, "--", "--total-num-mbufs=2048", "--rxd=64", "--txd=64")
        assert "Configuring Port 0" in said and "Bye..." in said, said
    print("the driver is found without -d")


def user(root, folder, *options, env=None):
    """The project in test/install/user, set up in `folder`."""
    os.mkdir(folder)
    for name in ("meson.build", "meson_options.txt"):
        os.symlink(os.path.join(root, "test/install/user", name), os.path.join(folder, name))
    os.symlink(os.path.join(root, "examples/03_umr_gather.cc"), os.path.join(folder, "gather.cc"))
    os.mkdir(os.path.join(folder, "subprojects"))
    os.symlink(root, os.path.join(folder, "subprojects/kilim"))
    run("meson", "setup", os.path.join(folder, "out"), folder, *options, env=env)
    return os.path.join(folder, "out")


def project(root, staged, version):
    """dependency('kilim') finds what is installed."""
    out = user(root, os.path.join(staged.folder, "user"), env=staged.env)
    staged.run("ninja", "-C", out)
    staged.run("meson", "test", "-C", out)
    assert f"[libkilim.so.{abi(version)}]" in run("readelf", "-d", os.path.join(out, "gather"))
    print("dependency('kilim')")


def subproject(root, folder, whole):
    """subproject('kilim') gives the same name, and nothing of this tree's tests and examples."""
    out = user(root, os.path.join(folder, "user"), "-Dinside=true", "-Dkilim:buildtype=debugoptimized",
               "-Dkilim:optimization=0")
    named = run("ninja", "-C", out, "-t", "targets", "all")
    assert "gather:" in named and "libkilim.a" in named and "_tests" not in named and "01_forward" not in named, "targets"
    if whole:
        run("ninja", "-C", out, "gather", seconds=1500)
        assert "gathered" in run(os.path.join(out, "gather"))
    print("subproject('kilim')" + (", built" if whole else ", set up"))


def main(arguments):
    root, build, version, what = os.path.abspath(arguments[1]), os.path.abspath(arguments[2]), *arguments[3:5]
    with tempfile.TemporaryDirectory(prefix="installed.", dir=build) as folder:   # EAL loads nothing below /tmp
        if what == "subproject":
            subproject(root, folder, os.environ.get("KILIM_CHECK") == "long" or arguments[5:] == ["whole"])
        else:
            kinds = {"programs": programs, "packages": packages, "vhca": vhca, "documents": documents, "headers": headers, "examples": examples, "plugin": plugin, "project": project}
            kinds[what](root, Staged(build, folder), version)
    return 0


if __name__ == "__main__":
    sys.dont_write_bytecode = True
    sys.exit(main(sys.argv))
