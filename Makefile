# make test runs everything; make help lists the targets.

export GOFLAGS := $(shell go env GOFLAGS)

# Programs that read all packages collect their garbage less often, which saves time.
SELDOM = GOGC=400

# Tests are linked without symbols and what debuggers need: that saves two fifths of the linking,
# which no test needs.
unit safe safe-all fuzz e2e oldest: export GOFLAGS += -ldflags=-s

# The path of a program that tools/go.mod names, built. go.work does not join that module, so its
# versions affect no other module.
TOOL        = $$(GOWORK=off go -C tools tool -n $(1))
# What go.work joins. One command for all shares the work on what they have in common. The proxy
# comes first: its tests take longest, and others are compiled meanwhile.
PACKAGES    = ./proxy/... ./controllerruntime/... ./... ./measure/bench/... ./measure/doctor/... ./cmd/weir/... ./examples/... ./metrics/... ./e2e/programs/report/...
# What make test fuzzes, and with how many inputs each: half a minute in all. Fuzzing compiles
# everything a package needs once more, so those that need the least are chosen. At night each gets
# 50000x. make fuzz FUZZ="$(make -s fuzzable)" takes all there are, FUZZTIME=1m a minute for each. A
# number of inputs is never reported as a failure, as the end of a time now and then is
# (go.dev/issue/56238).
FUZZ        = ./internal/core/wire ./measure/doctor/evidence ./internal/core/store ./internal/core/pack
FUZZTIME    = 1000x

# How long make soak takes, and more of its flags: -soak.seed N replays the faults of one run,
# -soak.json PATH writes the report.
SOAK        = 1h
SOAKFLAGS   =
# How many pods make programs has; PROGRAMFLAGS=-programs.profile=DIR has profiles of CPU and heap
# written, and -programs.share has the changed programs use Options.ShareDecoded.
PROGRAMPODS  = 50000
PROGRAMFLAGS =

# make baseline measures the figures that a change must keep, and writes them to
# measure/bench/baseline. make baseline-check measures BASELINETREE, and compares it with these.
# BASELINETREE can be a git worktree of another commit.
# BASELINEFLAGS='-without kube-scheduler,kube-controller-manager' leaves
# out the programs of others, and -only ROW measures one row.
BASELINETREE  = .
BASELINERUNS  = 5
BASELINEPODS  = 50000
BASELINEFLAGS =
BASELINE      = go run ./measure/bench/cmd/baseline -tree $(BASELINETREE) -runs $(BASELINERUNS) -pods $(BASELINEPODS) $(BASELINEFLAGS)

# The modules beside the root. tidy has them find each other as go.work does, which go mod tidy does
# not read.
MODULES      = cmd/weir controllerruntime e2e e2e/programs/report examples measure/bench measure/doctor metrics proxy
NESTED       = controllerruntime e2e/programs/report measure/doctor metrics proxy

.PHONY: help test testprograms lint staticcheck vulncheck unit safe safe-all fuzz fuzzable mutants e2e soak answers proxyfuzz hostile programs baseline baseline-check cost-model oldest compat next build release image apidiff fmt tidy release-check

# The end-to-end tests wait for servers half of their time, so the rest runs beside them. A test
# that lacks a program skips itself and adds a line to the file that WEIR_SKIPPED names: the last
# line of make test lists them. WEIR_SKIPS=fail, which .ci/run sets, makes that an error.
test: testprograms lint unit ## all tests, as CI runs them for each change
	@skipped=$$(mktemp) && trap 'rm -f "$$skipped"' EXIT && \
		WEIR_SKIPPED=$$skipped $(MAKE) -j2 e2e fuzz oldest safe && \
		if [ -s "$$skipped" ]; then \
			echo "skipped: $$(sort -u "$$skipped" | paste -sd ';' - | sed 's/;/; /g')"; [ "$$WEIR_SKIPS" != fail ]; \
		fi

# Root, and CI, may install packages. Others run scripts/testprograms when they like.
testprograms:
	@if [ "$$(id -u)" = 0 ] || [ -n "$$CI" ]; then scripts/testprograms || [ "$$WEIR_SKIPS" != fail ]; fi

help: ## this list
	@grep -hE '^[a-z0-9-]+:.*## ' $(MAKEFILE_LIST) | awk -F ':.*## ' '{ printf "  %-14s %s\n", $$1, $$2 }'

build: ## the programs, in bin/
	mkdir -p bin
	go build -o bin/ $(addprefix ./,$(PROGRAMS))

# What is tested with the race detector is read as compiled for it, so that the tests find in the
# cache what was compiled to read it.
lint: ## gofmt, go vet, staticcheck and unclear phrases
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	packages=$$(go list $(PACKAGES)) && lint=$(call TOOL,lint) && \
		GOFLAGS="$$GOFLAGS -race" $(SELDOM) $$lint $$(echo "$$packages" | grep -vE '/($(subst $() ,|,$(PLAIN)))$$') && \
		$(SELDOM) $$lint $(addprefix ./,$(PLAIN)) ./e2e/...
	GOWORK=off go -C tools tool lint ./...
	go test -vet=off -race -run '^TestProsePhrases$$' .

# make lint does not find out what functions of others do, which takes minutes the first time.
staticcheck: ## staticcheck as it is
	$(SELDOM) $(call TOOL,staticcheck) $(PACKAGES) ./e2e/...

# Not part of make test: a vulnerability that is published elsewhere must not fail a change here.
vulncheck: ## known vulnerabilities in what Weir calls; needs the database at vuln.go.dev
	@out=$$($(call TOOL,govulncheck) $(PACKAGES) 2>&1); code=$$?; echo "$$out"; case "$$out" in *"fetching vulnerabilities"*) \
		echo "nothing was checked: the database of vulnerabilities is not reachable" >&2;; esac; exit $$code

# The race detector makes ten seconds of some tests two minutes. So it is left out of the packages
# in PLAIN, which have no goroutine, and of the commands and benchmarks, which run what the other
# packages test. In the packages in BOTH and INVARIANTS it is left out of the tests that call
# testenv.SkipUnderRace: these packages run without it too. TestMakefile checks that each test runs.
#
# With -tags invariants, checks of inner states are on in programs' own use too: the packages in
# INVARIANTS have them, or put those together. The drop-in is not among them: its tests would take
# another 20 seconds of CPU, on the same engine.
#
# make lint has vetted all of it: to vet what the race detector needs of Kubernetes once more would
# take minutes.
PLAIN      := internal/core/wire measure/doctor cmd/weir measure/bench/cmd/baseline measure/bench/cmd/weir-bench measure/bench/internal/informers measure/bench/internal/servers examples/boltsink
BOTH       := informertest internal/core/pack internal/core/codec internal/testing/podsim
INVARIANTS := internal/core/store internal/core/reflector internal/core/delivery internal/serve/watchcache internal/testing/sim internal/core/engine .
unit: ## the tests of all modules but e2e, with the race detector where there is a goroutine
	packages=$$(go list $(PACKAGES)) && \
		go test -vet=off -race -timeout 15m $$(echo "$$packages" | grep -vE '/($(subst $() ,|,$(PLAIN)))$$')
	go test -vet=off -tags invariants $(addprefix ./,$(INVARIANTS))
	go test -vet=off -timeout 15m $(addprefix ./,$(PLAIN) $(BOTH))

# The same without unsafe. make test runs the packages that differ most, for a minute.
SAFE = ./internal/core/views ./internal/core/private ./internal/core/codec ./internal/core/source ./internal/core/store ./clientgo
safe: ## a minute of tests with the build tag weir_safe, which leaves out unsafe
	go vet -tags weir_safe ./internal/core/codec ./internal/core/views ./internal/core/private
	go test -vet=off -tags weir_safe $(SAFE)

# The benchmarks are left out: what they measure of the drop-in is client-go's with this tag.
safe-all: ## all tests but e2e and the benchmarks', with that tag
	go test -vet=off -tags weir_safe -timeout 15m $(filter-out ./measure/bench/...,$(PACKAGES))

fuzz: ## half a minute of fuzzing; FUZZ and FUZZTIME choose more
	@bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && cache=$$(go env GOCACHE)/fuzz && for d in $(FUZZ); do \
		package=$$(go list $$d) && go test -vet=off -tags fuzz -fuzz . -c -o $$bin/fuzz $$d && cd $$d || exit 1; \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' *_test.go | cut -c6-); do \
			echo "fuzz $$d $$f"; \
			$$bin/fuzz -test.run '^$$' -test.fuzz "^$$f$$" -test.fuzztime $(FUZZTIME) -test.fuzzminimizetime 20x \
				-test.fuzzcachedir $$cache/$$package || exit 1; \
		done; \
		cd $(CURDIR); \
	done

fuzzable: ## the packages that can be fuzzed
	@grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u

# Breaks the engine in some dozens of ways, one by one, and demands that the simulation notices. Not
# part of make test: it takes an hour.
mutants: ## break the engine in dozens of ways, and demand that the simulation notices: an hour
	go test ./internal/testing/sim -run '^TestMutants$$' -mutants -timeout 10h -v

# Builds kube-apiserver, etcd, kube-controller-manager, kube-scheduler and kubectl from their
# modules the first time: some 5 minutes on 2 cores. Prometheus, Chromium and npm are Debian's:
# scripts/testprograms installs them, and tests that lack one skip themselves. The race detector is
# left to the other tests, which run the same code; RACE=-race turns it on. The first two packages
# take longest: the others run meanwhile, two at a time, since most of what they do is to wait.
e2e: ## the end-to-end tests, on kube-apiserver and etcd
	cd e2e && go test -vet=off -p 3 $(RACE) -timeout 25m ./proxy ./doctor ./...

# Informers through an hour of faults, beside client-go's. make e2e has 90 seconds of it.
soak: ## an hour of faults beside client-go; SOAK=10m
	cd e2e && go test -timeout 0 -v -count=1 -run '^TestSoak$$' ./soak -args -soak.for $(SOAK) -soak.figures $(SOAKFLAGS)

# Objects of all kinds with random values, from the proxy and from kube-apiserver. make e2e has one
# round, which is the same each time. ANSWERSEED=N begins with the values of another run's round.
ANSWERROUNDS = 100
ANSWERSEED   = 0
answers: ## the bytes of all resources in all encodings, compared with kube-apiserver's
	cd e2e && go test -timeout 0 -v -count=1 -run '^TestAnswers$$' ./answers -args -answers.rounds $(ANSWERROUNDS) -answers.seed $(ANSWERSEED)

# Random requests to the proxy and to kube-apiserver, compared. make e2e has 1,000: the same 500 and
# as many new ones each time. FUZZSEED=N sends those of another run again.
PROXYREQUESTS = 300000
FUZZSEED      = 0
proxyfuzz: ## 300,000 random requests to the proxy and kube-apiserver; PROXYREQUESTS=N
	cd e2e && go test -timeout 0 -v -count=1 -run '^TestProxyFuzz$$' ./proxyfuzz -args -proxyfuzz.requests $(PROXYREQUESTS) -proxyfuzz.seed $(FUZZSEED)

# Clients that misbehave at the level of connections, next to well-behaved ones: each attack against
# weir-proxy, and then against kube-apiserver. make e2e has 5 seconds of each against weir-proxy.
# What was measured is kept in dist, so that another run continues there.
HOSTILE    = .
HOSTILEFOR = 2m
hostile: ## two minutes of each attack on the proxy and kube-apiserver: two hours; HOSTILE=regexp
	cd e2e && go test -timeout 0 -v -count=1 -run '^Test(Hostile|SameAddress)$$/$(HOSTILE)' ./hostile \
		-args -hostile.timed -hostile.for $(HOSTILEFOR) -hostile.results $(CURDIR)/dist/hostile-$(VERSION)-$(HOSTILEFOR)

# Programs that others wrote, on the drop-in beside themselves unchanged. Building them takes
# minutes each, the first time.
programs: ## programs of others on the drop-in; PROGRAMPODS=N
	cd e2e && go test -timeout 0 -v -count=1 -run '^TestPrograms$$' ./programs -args -programs.pods $(PROGRAMPODS) $(PROGRAMFLAGS)

# It takes an hour. What is measured stays, so that another run continues.
baseline: ## measure the figures that changes must keep, into measure/bench/baseline: an hour
	$(BASELINE)

baseline-check: ## measure them again, and compare
	$(BASELINE) -check

# What weir doctor predicts with. MODELPODS=N measures with other numbers of pods.
MODELPODS = 10000
cost-model: ## measure measure/doctor/cost/model.json again, on kube-apiserver and etcd: ten minutes
	cd e2e && go test -timeout 0 -v -count=1 -run '^TestCostModel$$' ./doctor -args -doctor.pods $(MODELPODS) -doctor.model $(CURDIR)/measure/doctor/cost/model.json

# The module alone, with the oldest client-go that it builds with, which its go.mod names; go.work
# has the newest. What it lacks, or does in another way, is not known when building only: the
# embedded server has to start with it, and the drop-in to do what it does. clientgo/oldest_test.go
# names the tests that need a newer client-go.
oldest: ## build, and test the drop-ins, with the oldest client-go and controller-runtime
	GOWORK=off go build ./...
	GOWORK=off go test -vet=off -run '^TestEveryKind$$' ./apiserver
	GOWORK=off go test -vet=off -tags oldest ./clientgo
	scripts/compat controller-runtime v0.22.4

# Each version of docs/reference/compatibility.md. A cell takes minutes, and kube-apiserver is built
# for it.
compat: ## the drop-ins with each version of docs/reference/compatibility.md
	scripts/compat

# Not part of make test: what is released elsewhere must not fail a change here.
NEXT =
next: ## the same with the newest client-go, pre-releases too; NEXT=v0.38.0-alpha.0
	scripts/next $(NEXT)

fmt: ## gofmt
	gofmt -w .

tidy: ## go mod tidy in the modules beside the root, whose tests have packages of a newer client-go
	@GOWORK=off go -C tools mod tidy
	@for d in $(MODULES); do \
		echo "go mod tidy in $$d"; up=$$(echo $$d | sed -E 's#[^/]+#..#g'); \
		(cd $$d && go mod edit -replace=github.com/weirproject/weir=$$up \
			$$(for m in $(NESTED); do echo "-replace=github.com/weirproject/weir/$$m=$$up/$$m"; done) && \
			GOWORK=off go mod tidy; code=$$?; go mod edit -dropreplace=github.com/weirproject/weir \
			$$(for m in $(NESTED); do echo "-dropreplace=github.com/weirproject/weir/$$m"; done); exit $$code) || exit 1; \
	done

# What a release has for download, in dist/: each program for each system, what each was built of,
# and checksums.
VERSION   ?= $(shell git describe --tags --match 'v*' --always --dirty)
PLATFORMS  = linux/amd64 linux/arm64 darwin/amd64 darwin/arm64 windows/amd64 windows/arm64
PROGRAMS   = cmd/weir cmd/weir/weir-serve measure/bench/cmd/weir-bench proxy/cmd/weir-proxy
# Helm wants a semantic version, also of a commit that no tag describes.
CHARTVERSION = $(patsubst v%,%,$(if $(filter v%,$(VERSION)),$(VERSION),v0.0.0-g$(VERSION)))
RELEASE    = CGO_ENABLED=0 go build -trimpath -ldflags='-s -w'
release: ## in dist/, the programs for linux, darwin and windows, with checksums and an SBOM for each
	@rm -rf dist && mkdir -p dist
	@sbom=$(call TOOL,sbom); for p in $(PLATFORMS); do \
		export GOOS=$${p%/*} GOARCH=$${p#*/}; of=$(VERSION)_$${GOOS}_$$GOARCH; dir=dist/weir_$$of; mkdir -p $$dir; echo "$$p"; \
		for program in $(PROGRAMS); do \
			name=$$(basename $$program); exe=$$name$$(go env GOEXE); \
			$(RELEASE) -o $$dir/$$exe ./$$program && $$sbom -version $(VERSION) $$dir/$$exe && \
				mv $$dir/$$exe.cdx.json dist/$${name}_$$of.cdx.json || exit 1; \
		done; \
		cp LICENSE README.md $$dir/ && tar -C dist -czf $$dir.tar.gz $$(basename $$dir) && rm -r $$dir || exit 1; \
	done
	@mkdir dist/chart && cp -r deploy/helm/weir-proxy dist/chart/ && \
		sed -i 's/^version: .*/version: $(CHARTVERSION)/; s/^appVersion: .*/appVersion: $(VERSION)/' dist/chart/weir-proxy/Chart.yaml && \
		tar -C dist/chart -czf dist/weir-proxy-chart_$(VERSION).tgz weir-proxy && rm -r dist/chart
	@cp deploy/krew.yaml dist/krew.yaml && sed -i 's/VERSION/$(VERSION)/g' dist/krew.yaml
	@cd dist && sha256sum *.tar.gz *.tgz *.cdx.json > checksums.txt && while read -r sum file; do \
		of=$${file#weir_$(VERSION)_}; sed -i "s/SHA256_$${of%.tar.gz}$$/$$sum/" krew.yaml; \
	done < checksums.txt && cat checksums.txt

# Container images of weir, with weir-serve beside it, and of weir-proxy. Nothing else is in them:
# no base that a registry would have to be asked for. dist/images/PROGRAM is an OCI layout, for
# crane push or skopeo copy; PROGRAM_PLATFORM.tar is for docker load.
IMAGEPLATFORMS = linux/amd64 linux/arm64
image: ## container images of weir and weir-proxy, in dist/images
	@rm -rf dist/images && mkdir -p dist/images
	@image=$(call TOOL,image); bin=$$(mktemp -d) && trap 'rm -rf "$$bin"' EXIT && for programs in cmd/weir,cmd/weir/weir-serve proxy/cmd/weir-proxy; do \
		set --; for p in $(IMAGEPLATFORMS); do \
			files=; for program in $$(echo $$programs | tr , ' '); do \
				file=$$bin/$$p/$$(basename $$program); files=$$files,$$file; \
				GOOS=$${p%/*} GOARCH=$${p#*/} $(RELEASE) -o $$file ./$$program || exit 1; \
			done; set -- "$$@" $$p=$${files#,}; \
		done; \
		$$image -o dist/images -version $(VERSION) -created $$(git log -1 --format=%ct) "$$@" || exit 1; \
	done

apidiff: ## what has changed for users' code since the last release
	scripts/apidiff

release-check: ## install and import a release from scratch, compiling all of it
	cd e2e && go test -v -count=1 -timeout 0 ./release -args -release.build
