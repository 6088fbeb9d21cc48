package main

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

// The test's own binary is the program that stage starts for each reactor.
func TestMain(m *testing.M) {
	if name := os.Getenv(reactorEnv); name != "" {
		if err := react(context.Background(), os.Getenv(dbEnv), name); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestStage(t *testing.T) {
	var out bytes.Buffer
	if err := stage(t.Context(), filepath.Join(t.TempDir(), "eventlog.db"), 100, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"anna is killed after 51 orders\n", "verdict: 100 orders, each billed exactly once\n"} {
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
