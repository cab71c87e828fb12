# SPDX-License-Identifier: MIT
# A thin front to Meson and the test runner. `make help` lists what there is.

MESON_BUILD = meson setup
NINJA       = ninja $(if $(JOBS),-j$(JOBS))
PROGRAMS    = lessord lessor lessor-task lessor-store-driver beast2-tool

.PHONY: help build build-all build-hooks build-asan build-tsan build-fuzz demo test bench lint fuzz soak install deps clean format

help:
	@sed -n 's/^## //p' Makefile

## make demo         build what is needed and show one job from site to device and back
demo: build
	@tests/demo/demo

## make build        build/lessord and build/lessor
build:
	@tools/deps build
	@[ -f build/build.ninja ] || $(MESON_BUILD) build >/dev/null
	@$(NINJA) -C build $(PROGRAMS)

## make build-all    build/ with everything in it: tests and benchmarks too
build-all: build
	@$(NINJA) -C build

## make build-hooks  the same with test hooks, in build-hooks/; never for real use
build-hooks:
	@tools/deps build
	@[ -f build-hooks/build.ninja ] || $(MESON_BUILD) -Dtest_hooks=true build-hooks >/dev/null
	@$(NINJA) -C build-hooks $(PROGRAMS)

build-asan:
	@[ -f build-asan/build.ninja ] || meson setup --buildtype=debug -Dtest_hooks=true \
		-Db_sanitize=address,undefined -Db_lundef=false build-asan >/dev/null
	@$(NINJA) -C build-asan

build-tsan:
	@[ -f build-tsan/build.ninja ] || meson setup --buildtype=debug -Dtest_hooks=true \
		-Db_sanitize=thread -Db_lundef=false build-tsan >/dev/null
	@$(NINJA) -C build-tsan

build-fuzz:
	@[ -f build-fuzz/build.ninja ] || CC=clang-14 meson setup --buildtype=debugoptimized -Dfuzzers=true \
		-Db_sanitize=address,undefined -Db_lundef=false build-fuzz >/dev/null
	@$(NINJA) -C build-fuzz

## make test         every test; ends with a line that counts them
test: deps
	@tests/run

## make bench        the load generator against lessord; prints a table, writes build/bench.json
bench: build-all
	@bench/run

## make lint         clang-format, clang-tidy and a clang build with all warnings
lint: deps
	@tools/lint

## make fuzz         each fuzz target for FUZZ_SECONDS (60)
fuzz: deps build-fuzz
	@tests/fuzz/run

## make soak         the long campaigns for SOAK_MINUTES (60): kill loops, random histories, fuzzing
soak: deps
	@tests/soak

## make install      programs, man pages, completions and headers, to DESTDIR and prefix (meson's)
install: build-all
	@meson install -C build --no-rebuild

## make deps         install what building and testing needs
deps:
	@tools/deps

format:
	@git ls-files '*.c' '*.h' | xargs clang-format-14 -i

clean:
	rm -rf build build-hooks build-asan build-tsan build-fuzz build-clang
