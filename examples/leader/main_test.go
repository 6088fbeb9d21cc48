package main

import (
	"bytes"
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"regexp"
	"testing"

	"go.uber.org/goleak"
)

// The test's own binary is the program that stage starts for each candidate.
func TestMain(m *testing.M) {
	if name := os.Getenv(candidateEnv); name != "" {
		db, urls := flag.String("db", "", ""), flag.String("url", "", "")
		flag.Parse()
		if err := stand(context.Background(), name, *db, *urls); err != nil {
			fmt.Fprintln(os.Stderr, err)
			os.Exit(1)
		}
		os.Exit(0)
	}
	goleak.VerifyTestMain(m)
}

func TestStage(t *testing.T) {
	var out bytes.Buffer
	if err := stage(t.Context(), filepath.Join(t.TempDir(), "leader.db"), "", &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{`(anna|ben|cleo) leads term 1\n`, ` is killed\n`, ` leads term 2\n`, ` stops term 2\n`, ` leads term 3\n`, `verdict: one leader at a time`} {
		if !regexp.MustCompile(want).Match(out.Bytes()) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
}
