//go:build race

package servers

// raceFlag builds other programs as this one: what was compiled for it is used again.
const raceFlag = "-race=true"
