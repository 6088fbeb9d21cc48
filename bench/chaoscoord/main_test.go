package main

import (
	"io"
	"os"
	"runtime"
	"strings"
	"testing"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) {
	if spec := os.Getenv(workerEnv); spec != "" {
		os.Exit(work(spec, os.Stdin, os.Stdout))
	}
	goleak.VerifyTestMain(m)
}

func TestShortRun(t *testing.T) {
	if runtime.GOOS == "windows" {
		t.Skip("processes cannot be stopped on this system: run this on a Unix")
	}
	for _, mode := range []string{"-no-shared-clock=false", "-no-shared-clock"} {
		var out strings.Builder
		args := []string{"-sqlite", "-duration", "5s", "-lease", "300ms", "-seed", "1", mode}
		if status := command(args, &out, io.Discard); status != exitOK {
			t.Errorf("%s: exit status %d\n%s", mode, status, out.String())
		}
		t.Log(out.String())
	}
}

func TestUnusableArguments(t *testing.T) {
	for _, args := range [][]string{{"-processes", "1"}, {"-lease", "1ms"}, {"-locks", "0"}, {"more"}, {"-nonsense"}} {
		if status := command(args, io.Discard, io.Discard); status != exitFailed {
			t.Errorf("%v: exit status %d", args, status)
		}
	}
}
