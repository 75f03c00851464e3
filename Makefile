# make test runs everything; the other targets are its parts.

STATICCHECK = go run honnef.co/go/tools/cmd/staticcheck@v0.8.2
# What go.work joins. One command for all shares the work on what they have in common.
PACKAGES    = ./... ./bench/... ./cmd/weir/... ./controllerruntime/... ./proxy/...
# What make test fuzzes, and for how long each: a minute in all. Fuzzing compiles everything a package needs once more, so those that
# need the least are chosen. make fuzz FUZZ="$(make -s fuzzable)" takes all there are.
FUZZ        = ./internal/wire ./internal/store ./internal/entropy
FUZZTIME    = 5s

# How long make soak takes, and more of its flags: -soak.seed N replays the faults of one run, -soak.json PATH writes the report.
SOAK        = 1h
SOAKFLAGS   =
# How many pods make programs has; PROGRAMFLAGS=-programs.profile=DIR has profiles of CPU and heap written.
PROGRAMPODS  = 50000
PROGRAMFLAGS =

.PHONY: test vet lint unit fuzz fuzzable mutants e2e soak proxyfuzz programs oldest build fmt

test: vet lint unit fuzz e2e

build:
	mkdir -p bin
	go build -o bin/ ./cmd/weir ./bench/cmd/weir-bench ./proxy/cmd/weir-proxy

vet:
	@test -z "$$(gofmt -l .)" || { echo "not gofmt-ed:"; gofmt -l .; exit 1; }
	go vet $(PACKAGES) ./e2e/...

lint:
	$(STATICCHECK) $(PACKAGES) ./e2e/...

# The race detector makes ten seconds of some tests two minutes. So it is left out of what has no goroutine, of what has one test with
# some, which is run apart, of the command and its benchmarks, which run what the other packages test, and of those runs of the conformance suite
# that are client-go's own, break it on purpose, or differ in the encoding.
PLAIN   := internal/wire internal/decode internal/entropy cmd/weir bench/cmd/weir-bench bench/internal/informers bench/internal/servers
CONTROL := ^Test(ClientGo(List|WatchList)|Sabotage|DropInJSON)$$
unit:
	packages=$$(go list $(PACKAGES)) && \
		go test -race -timeout 15m -skip '$(CONTROL)' $$(echo "$$packages" | grep -vE '/($(subst $() ,|,$(PLAIN)))$$')
	go test -race -run '^TestConcurrent$$' ./internal/decode
	go test -timeout 15m $(addprefix ./,$(PLAIN))
	go test -timeout 15m -run '$(CONTROL)' ./informertest

fuzz:
	@for d in $(FUZZ); do \
		for f in $$(grep -hoE '^func Fuzz[A-Za-z0-9_]+' $$d/*_test.go | cut -c6-); do \
			echo "fuzz $$d $$f"; \
			(cd $$d && go test -run '^$$' -fuzz "^$$f$$" -fuzztime $(FUZZTIME) -fuzzminimizetime 20x .) || exit 1; \
		done; \
	done

fuzzable:
	@grep -rl '^func Fuzz' --include='*_test.go' . | xargs -n1 dirname | sort -u

# Breaks the engine in some dozens of ways, one by one, and demands that the simulation notices. Not part of make test: it takes an hour.
mutants:
	go test ./internal/sim -run '^TestMutants$$' -mutants -timeout 10h -v

# Builds kube-apiserver, etcd, kube-controller-manager, kube-scheduler and kubectl from their modules the first time: some 5 minutes
# on 2 cores. The race detector is left to the other tests, which run the same code; RACE=-race turns it on.
e2e:
	cd e2e && go test $(RACE) -timeout 25m ./...

# Informers through an hour of faults, beside client-go's. make e2e has 90 seconds of it.
soak:
	cd e2e && go test -timeout 0 -v -count=1 -run '^TestSoak$$' ./soak -args -soak.for $(SOAK) -soak.figures $(SOAKFLAGS)

# Random requests to the proxy and to kube-apiserver, compared. make e2e has the same 1,000 each time. FUZZSEED=N sends those of another run again.
PROXYREQUESTS = 300000
FUZZSEED      = 0
proxyfuzz:
	cd e2e && go test -timeout 0 -v -count=1 -run '^TestProxyFuzz$$' ./proxyfuzz -args -proxyfuzz.requests $(PROXYREQUESTS) -proxyfuzz.seed $(FUZZSEED)

# Programs that others wrote, on the drop-in beside themselves unchanged. Building them takes minutes each, the first time.
programs:
	cd e2e && go test -timeout 0 -v -count=1 -run '^TestPrograms$$' ./programs -args -programs.pods $(PROGRAMPODS) $(PROGRAMFLAGS)

# The module alone, with the oldest client-go that it builds with, which its go.mod names; go.work has the newest.
oldest:
	GOWORK=off go build ./...

fmt:
	gofmt -w .
