#!/bin/sh
# SPDX-License-Identifier: BSD-3-Clause
# Tells the dynamic loader's cache what was installed; run by `meson install`, though never into a DESTDIR, where
# a package's own scripts do it. Without root a program that links libkilim.so needs an rpath (README, "Install").
PATH=/usr/sbin:/sbin:$PATH
[ "$(id -u)" != 0 ] || ldconfig
