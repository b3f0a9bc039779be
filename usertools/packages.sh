#!/bin/bash
# SPDX-License-Identifier: BSD-3-Clause
# Makes Kilim's Debian packages for a release, of this tree as it stands, in a root of that release
# (usertools/in-root.sh), asks lintian about them, and tries them: in a root that has nothing they are
# installed by apt, used by an ordinary user, removed and purged. Leaves them in the folder that it names.
#
# Usage: usertools/packages.sh [--quick] [--made] [--may-skip] [RELEASE]
#   RELEASE      bookworm (default), trixie or sid
#   --quick      compiled without the optimizer, to try the packaging alone
#   --made       those that lie there already are tried
#   --may-skip   a machine that cannot make such a root is told and is no failure
set -u
. "$(dirname "${BASH_SOURCE[0]}")/prepare.sh"
. "$(dirname "${BASH_SOURCE[0]}")/root.sh"

quick=no made=no
options "... quick made" "may-skip" "$@"
[ ${#words[@]} -gt 0 ] && may_skip=yes
[ ${#others[@]} -le 1 ] || fail "one release at a time, not ${others[*]}"
release_named "${others[0]:-bookworm}"
folder=$ROOT/build-packages-$release
exec < /dev/null

cleanup() {
  trap '' INT TERM HUP
  end_attended
  [ -z "$root" ] || rm -rf --one-file-system "$root"
}
trap cleanup EXIT
trap 'exit 130' INT
trap 'exit 143' TERM HUP

# In a shell of step()'s, so that a signal for it is in-root.sh's. The packages go through build/, which a root keeps. Lintian's errors and warnings are failures.
make_packages() {
  local how='parallel=2 nocheck'
  [ $quick = no ] || how+=' noopt'
  exec "$ROOT/usertools/in-root.sh" "${words[@]}" --with "build root package" --build "$folder" "$release" \
    bash -c "rm -f build/*.deb && DEB_BUILD_OPTIONS='$how' dpkg-buildpackage -b -us -uc > build/dpkg-buildpackage.log 2>&1 ||
      { tail -30 build/dpkg-buildpackage.log; exit 1; }
      mv ../*.deb ../*.changes ../*.buildinfo build/
      lintian --fail-on error,warning build/*.changes"
}

# What is in a root, but for what apt and dpkg keep for themselves, and caches.
files_of() {
  (cd "$1" && find . -xdev \( -path ./src -o -path ./root -o -path ./var/lib/dpkg -o -path ./var/lib/apt -o -path ./var/cache -o -path ./var/log \
    -o -path ./tmp -o -path ./run -o -path ./etc/ld.so.cache -o -path ./var/lib/systemd \) -prune -o -print | sort)
}

try_packages() {
  local before after package given failed=0 apt='DEBIAN_FRONTEND=noninteractive apt-get -qq -y --no-install-recommends'
  base_of
  root=$(mktemp -d "${TMPDIR:-/var/tmp}/kilim-packages.XXXXXX")
  copy_root "$base" "$root"
  mkdir -p "$root$TREE"
  cp -r "$folder"/*.deb "$ROOT/usertools" "$ROOT/debian" "$root$TREE/"
  chroot "$root" useradd --create-home newcomer || fail "cannot make a user in the root"
  # What others give: all that the packages and the test want, so that what is left behind is Kilim's.
  given=$({ sed -n 's/^Depends: //p' "$ROOT/debian/tests/control" | tr ',' '\n'
    for package in "$folder"/*.deb; do dpkg-deb -f "$package" Depends Recommends | sed 's/^[A-Z][A-Za-z-]*: //' | tr ',' '\n'; done
  } | sed 's/^ *//; s/[ (|:].*//' | grep '^[a-z]' | grep -v kilim | sort -u | tr '\n' ' ')
  step "what other packages give" enter root "apt-get -qq update && $apt install $given" || return 1
  before=$(files_of "$root")
  step "apt install ./*.deb" enter root "$apt install ./*.deb" || return 1
  step "used by an ordinary user" enter newcomer "bash debian/tests/used" || failed=1
  step "apt purge" enter root "$apt purge \$(for p in *.deb; do dpkg-deb -f \$p Package; done)" || return 1
  after=$(files_of "$root")
  if [ "$before" != "$after" ]; then
    say "  removal and purge leave:"
    diff <(echo "$before") <(echo "$after")
    failed=1
  fi
  return $failed
}

[ $made = yes ] || step "packages for $release" make_packages || fail "no packages for $release"
try_packages || fail "the packages of $release do not do what they should"
say "packages.sh: $(find "$folder" -maxdepth 1 -name '*.deb' | wc -l) packages in $folder"
