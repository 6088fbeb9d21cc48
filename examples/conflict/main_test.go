package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	main()
	// Output:
	// lost: visits was expected at version 1 and is at 2
	// 40 workers counted a visit each: {"n":40}
}
