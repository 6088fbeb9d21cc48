package main

import (
	"flag"
	"math/rand/v2"
	"os"
	"strconv"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

var seedFlag = flag.Uint64("seed", 0, "seed of the random choices; 0 takes CHAOS_SEED, or chooses one")

// testSeed returns the seed of a test and tells how to repeat it.
func testSeed(t *testing.T) uint64 {
	seed := *seedFlag
	if seed == 0 {
		seed, _ = strconv.ParseUint(os.Getenv("CHAOS_SEED"), 10, 64)
	}
	if seed == 0 {
		seed = rand.Uint64N(1e9) + 1
	}
	t.Logf("seed %d; repeat with: go test ./bench/chaos -run '^%s$' -seed %d", seed, t.Name(), seed)
	return seed
}
