# `make` builds the command and the library. Two commands more: `make demo` and `make test`. The rest is for work on Mica itself.
JOBS ?= $(shell nproc 2>/dev/null || echo 2)
DEMO ?= examples/gqa_spec.mica
PREFIX ?= /usr/local
BUILD = JOBS=$(JOBS) bash scripts/build.sh
RELEASE = -DCMAKE_BUILD_TYPE=Release
PRODUCTS = mica mica_shared
# One test more than processors: some tests wait for other processes, for locks or for deadlines.
CTEST = ctest --output-on-failure --no-tests=error -j $$(($(JOBS) + 1))

.NOTPARALLEL:
.PHONY: golden fuzz build release compilers aarch64 setup venv debug demo test check check-all check-gpu tile_gpu gpu_race gpu_every tsan attack mpi bench docs report wheel install deb deb-check format clean
build:
	@$(BUILD) build $(RELEASE) $(PRODUCTS)

# Everything of the tree, its tests too.
release:
	@$(BUILD) build $(RELEASE) -DMICA_TESTS=ON

debug:
	@$(BUILD) build-asan -DCMAKE_BUILD_TYPE=Debug -DMICA_SANITIZE=address,undefined -DMICA_TESTS=ON

# Everything with each of these compilers that is there, in a folder of its own; a warning is an error.
COMPILERS ?= gcc-11 clang-14
compilers:
	@for cc in $(COMPILERS); do \
	  if command -v $$cc >/dev/null; then $(BUILD) build-$$cc $(RELEASE) -DMICA_WERROR=ON -DCMAKE_C_COMPILER=$$(command -v $$cc) || exit; \
	  else echo "$$cc is not there"; fi; \
	done

# The command for aarch64, in build-aarch64: docs/install.md has the packages.
aarch64:
	@$(BUILD) build-aarch64 $(RELEASE) -DCMAKE_TOOLCHAIN_FILE=$(CURDIR)/cmake/aarch64.cmake -DMICA_TESTS=OFF -DMICA_PYTHON=OFF mica

setup:
	@bash scripts/setup.sh

# Optimizes one program from examples/ and ends in a report; the files are in build/demo.
demo: setup
	@$(MAKE) --no-print-directory build
	build/mica optimize $(DEMO) --dtype f32 --target cpu --out build/demo

# Virtual environment for the tests of the Python package.
venv:
	@bash python/venv.sh build/venv

# Everything quick, once with the address and undefined-behaviour sanitizers and once as released.
test: setup venv
	@$(MAKE) --no-print-directory debug release
	@$(MAKE) --no-print-directory check

check:
	cd build-asan && $(CTEST) -L '^check$$'
	cd build && $(CTEST) -L '^check$$'

# The slow tests too: long random tests, and with the sanitizers all rows of tables that `check` thins there (tests/thin.h).
check-all: setup venv
	@$(MAKE) --no-print-directory debug release
	cd build-asan && MICA_ALL=1 $(CTEST) -L '^check(-sanitized)?$$'
	cd build && MICA_ALL=1 $(CTEST) -L '^check-all$$'

# Rewrites the golden texts (tests/golden/texts) for review: git diff tests/golden.
golden:
	@$(BUILD) build $(RELEASE) golden_test_golden
	build/tests/golden_test_golden write

# On this machine's GPU: the worker and what it says of kernels that do what no kernel should, a race; tile kernels as the
# interpreter computes them, and as programs in float64; every value of every knob of every scheme. Exit status 3: no GPU.
check-gpu: tile_gpu gpu_every
	@$(BUILD) build $(RELEASE) gpu_test_real
	build/tests/gpu_test_real
	build/tile_gpu bench/tile.list
	build/gpu_every

tile_gpu:
	@$(BUILD) build $(RELEASE) tile_gpu

# Kernel graphs of a program raced on this machine's GPU: docs/gpu.md.
gpu_race:
	@$(BUILD) build $(RELEASE) gpu_race

# The thread sanitizer on the components that run threads, and on tests of others that do: jobs, races, contexts and modules in threads.
tsan: setup
	@$(BUILD) build-tsan -DCMAKE_BUILD_TYPE=Debug -DMICA_SANITIZE=thread
	cd build-tsan && $(CTEST) -L '^(search|verify|rt|target|gpu|mega)$$'
	cd build-tsan && $(CTEST) -R '^(drive_test_(threads|pipe|plans_gpu|prove_ahead|race_gpu|race_joined|split|stop_gpu)|api_test_(module|module_gpu)|report_test_html)$$'

# Generated pairs of programs against the verifier: make attack N=25000 SEED=1 JOBS=2 (tests/verify/pairs.h).
attack:
	@$(BUILD) build $(RELEASE) -DMICA_TESTS=ON verify_test_pairs
	@bash scripts/attack.sh $(or $(N),25000) $(or $(SEED),1) $(JOBS)

# libFuzzer on one way in, with clang: make fuzz FUZZ=onnx TIME=3600 (docs/onnx.md).
fuzz:
	@bash scripts/fuzz.sh $(or $(FUZZ),onnx) $(or $(TIME),3600)

# Small graphs at every value of every knob on this machine's GPU: docs/gpu.md.
gpu_every:
	@$(BUILD) build $(RELEASE) gpu_every

# With `mpirun -n K mica search ...`, in build-mpi, and its tests.
mpi:
	@bash scripts/setup.sh --mpi
	@$(BUILD) build-mpi $(RELEASE) -DMICA_MPI=ON mica
	cd build-mpi && $(CTEST) -R '^cli_test_mpirun$$'

# The table of all examples against op-by-op; bench/cpu.csv keeps the figures.
bench:
	bash bench/run.sh

# The site, build/site/index.html.
docs: setup
	@$(MAKE) --no-print-directory build
	@bash scripts/site.sh

# The report on method, guarantees and all tables, build/report/report.html and report.pdf. pip installs weasyprint into build/report/venv;
# where it cannot, a chromium prints the PDF.
report:
	@[ -x build/report/venv/bin/weasyprint ] || { python3 -m venv build/report/venv && build/report/venv/bin/pip install -q weasyprint; } || true
	@$$([ -x build/report/venv/bin/weasyprint ] && echo build/report/venv/bin/python || echo python3) docs/report/report.py build/report

# The sdist and the manylinux wheel of the Python package, in dist; MACHINE=aarch64 for that processor (scripts/wheel.sh).
wheel:
	@bash scripts/wheel.sh

# DESTDIR is respected. pkg-config and find_package(mica) then find it: docs/library.md.
install:
	@$(BUILD) build $(RELEASE) $(PRODUCTS) papers
	cmake --install build --prefix $(PREFIX)

# Debian packages of the library, its development files and the command, in build-deb; for any processor of this architecture.
# CONTACT="NAME <ADDRESS>": who answers for them.
deb: setup
	@$(BUILD) build-deb $(RELEASE) -DMICA_NATIVE=OFF -DMICA_DEB=ON -DCMAKE_INSTALL_PREFIX=/usr $(if $(CONTACT),-DMICA_CONTACT="$(CONTACT)") \
	  mica_static mica_shared mica papers
	cd build-deb && cpack -G DEB

# And programs of those who would install them.
deb-check: deb
	MICA=$(CURDIR)/build-deb/mica bash tests/api/test_deb.sh

format:
	@scripts/format.sh

clean:
	rm -rf build build-asan build-tsan build-fuzz build-mpi build-deb build-aarch64 $(addprefix build-,$(COMPILERS))
