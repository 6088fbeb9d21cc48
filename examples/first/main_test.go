package main

import (
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func Example() {
	main()
	// Output:
	// committed invoice-7 at version 1
	// loaded invoice-7: RUNNING, {"amount":120}
	// has seen order-7-confirmed: true
}
