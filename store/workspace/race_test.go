//go:build race

package workspace_test

// raceEnabled tells that the race detector makes everything about ten times slower.
const raceEnabled = true
