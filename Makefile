# SPDX-License-Identifier: Apache-2.0 OR MIT
# Thin: the logic is in tools/xtask.

.PHONY: try test test-all check experiments bench fuzz outside setup build install deb release docs

build: setup
	cargo build --release --locked --workspace --bin weirgate --bin weirgate-lab --bin weirgate-guest

setup:
	@command -v cargo >/dev/null || { \
		echo "cargo is missing; see https://rustup.rs, or run:"; \
		echo "  curl --proto '=https' --tlsv1.2 -sSf https://sh.rustup.rs | sh"; \
		exit 1; }
	@cargo xtask setup

try: build
	@target/release/weirgate-lab lab prepare
	@target/release/weirgate-lab try

test: setup
	@cargo xtask test

# Also what takes longer than a change should wait for.
test-all: setup
	@cargo xtask test-all

check:
	@cargo xtask check

# Runs what has changed since its result was stored in results/, and compares.
experiments: build
	@target/release/weirgate-lab lab prepare
	@target/release/weirgate-lab results run

bench: setup
	@cargo xtask bench

# Compares with what others wrote, which is fetched; packetdrill where PACKETDRILL names
# a checkout of it.
outside: build
	cargo build --release --locked --workspace --bin outside
	@target/release/weirgate-lab lab prepare
	target/release/outside states --page docs/measurements/outside.md
	target/release/outside programs --page docs/measurements/outside.md
	$(if $(PACKETDRILL),target/release/outside scripts --packetdrill $(PACKETDRILL) \
		--page docs/measurements/outside.md)
	target/release/outside forwarding --page docs/measurements/outside.md
	target/release/outside generators --page docs/measurements/outside.md
	target/release/outside decisions --decisions 100000000 \
		--page docs/measurements/kernel-decisions.md
	target/release/outside soak --page docs/measurements/outside.md

fuzz:
	@cargo xtask fuzz --seconds 600

# What a router needs is `weirgate` alone; it is built as packages hold it.
install: build
	cargo router
	install -D -m 755 target/dist/weirgate $(DESTDIR)$(or $(PREFIX),/usr/local)/bin/weirgate
	install -D -m 755 target/release/weirgate-lab $(DESTDIR)$(or $(PREFIX),/usr/local)/bin/weirgate-lab
	install -D -m 755 target/release/weirgate-guest $(DESTDIR)$(or $(PREFIX),/usr/local)/bin/weirgate-guest
	install -d -m 755 $(DESTDIR)$(or $(PREFIX),/usr/local)/share/weirgate
	cp -r experiments policies domains $(DESTDIR)$(or $(PREFIX),/usr/local)/share/weirgate/

deb: setup
	@cargo xtask deb

# All files of a release that can be made here, in target/release-files; KEY is a key of SSH's
# that the sums are signed with.
release: setup
	@cargo xtask release $(if $(KEY),--key $(KEY))

# The book, in target/book; checks every link. Installs mdbook below target where it is missing.
docs:
	@cargo xtask docs
