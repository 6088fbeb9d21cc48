package main

import (
	"bytes"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestRun(t *testing.T) {
	var out bytes.Buffer
	if err := run(t.Context(), filepath.Join(t.TempDir(), "cron.db"), "", 200*time.Millisecond, 3*time.Second, &out); err != nil {
		t.Fatalf("%v\n%s", err, &out)
	}
	for _, want := range []string{"report", "cleanup", "verdict: 1"} { // some fifteen ticks
		if !strings.Contains(out.String(), want) {
			t.Errorf("no %q in\n%s", want, &out)
		}
	}
	if strings.Contains(out.String(), "missed") {
		t.Errorf("ticks were missed:\n%s", &out)
	}
}

func TestReportFindsWhatIsWrong(t *testing.T) {
	tick := func(n int) done {
		d := done{by: "east"}
		d.Job, d.Due = "report-x", time.Unix(int64(n), 0)
		return d
	}
	for what, log := range map[string][]done{"nothing": nil, "twice": {tick(1), tick(2), tick(2)}, "left out": {tick(1), tick(3)}} {
		var out bytes.Buffer
		if err := report(log, "report-x", time.Second, &out); err == nil {
			t.Errorf("%s is no error", what)
		}
	}
}
