//go:build !race

package servers

// raceFlag makes go build use the race setting of this test binary, so that it reuses compiled
// packages.
const raceFlag = "-race=false"
