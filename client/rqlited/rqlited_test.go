package rqlited_test

import (
	"context"
	"errors"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/quorate/quorate/client/rqlited"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestFindHonoursTheEnvironment(t *testing.T) {
	dir := t.TempDir()
	bin := filepath.Join(dir, "my-rqlited")
	if err := os.WriteFile(bin, []byte("#!/bin/sh\n"), 0o700); err != nil {
		t.Fatal(err)
	}
	t.Setenv(rqlited.EnvBinary, bin)
	if got, ok := rqlited.Find(); !ok || got != bin {
		t.Errorf("Find() = %q, %v; want %q", got, ok, bin)
	}
	t.Setenv(rqlited.EnvBinary, filepath.Join(dir, "absent"))
	if got, ok := rqlited.Find(); ok {
		t.Errorf("Find() = %q with RQLITED naming no file", got)
	}
	if _, err := rqlited.Start(t.Context(), rqlited.Options{}); !errors.Is(err, rqlited.ErrNotFound) {
		t.Errorf("Start without a binary: %v", err)
	}
}

func TestRequireSaysHowToEnable(t *testing.T) {
	t.Setenv(rqlited.EnvBinary, filepath.Join(t.TempDir(), "absent"))
	var r recorder
	rqlited.Require(&r)
	if !strings.Contains(r.text, "set RQLITED=/path/to/rqlited") {
		t.Errorf("skip text %q does not say how to enable the test", r.text)
	}
}

type recorder struct{ text string }

func (r *recorder) Helper() {}
func (r *recorder) Skip(args ...any) {
	for _, a := range args {
		r.text += a.(string)
	}
}

func TestStartFailsWhenTheBinaryEnds(t *testing.T) {
	bin := filepath.Join(t.TempDir(), "rqlited")
	script := "#!/bin/sh\necho no such flag\nexit 3\n"
	if err := os.WriteFile(bin, []byte(script), 0o700); err != nil {
		t.Fatal(err)
	}
	_, err := rqlited.Start(t.Context(), rqlited.Options{Binary: bin, Nodes: 1})
	if err == nil || !strings.Contains(err.Error(), "no such flag") {
		t.Errorf("Start = %v; want the node's output in the error", err)
	}
}

func TestClusterLifeCycle(t *testing.T) {
	bin := rqlited.Require(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	c, err := rqlited.Start(ctx, rqlited.Options{Binary: bin, Nodes: 3})
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	first, err := c.Leader(ctx)
	if err != nil {
		t.Fatal(err)
	}

	if err := c.Kill(first); err != nil {
		t.Fatal(err)
	}
	second, err := c.Leader(ctx)
	if err != nil || second == first {
		t.Fatalf("leader after the kill of node %d: %d, %v", first, second, err)
	}
	if err := c.Restart(ctx, first); err != nil {
		t.Fatal(err)
	}

	if err := c.Pause(second); err != nil {
		t.Fatal(err)
	}
	third, err := c.Leader(ctx)
	if err != nil || third == second {
		t.Fatalf("leader after the pause of node %d: %d, %v", second, third, err)
	}
	if err := c.Resume(second); err != nil {
		t.Fatal(err)
	}
	if err := c.Stop(third); err != nil {
		t.Fatal(err)
	}
	if fourth, err := c.Leader(ctx); err != nil || fourth == third {
		t.Fatalf("leader after the stop of node %d: %d, %v", third, fourth, err)
	}
	if c.Logs(0) == "" {
		t.Error("node 0 has no log")
	}

	url := c.URLs()[second]
	if err := c.Close(); err != nil {
		t.Fatal(err)
	}
	hc := &http.Client{Transport: &http.Transport{DisableKeepAlives: true}}
	if resp, err := hc.Get(url + "/readyz"); err == nil {
		resp.Body.Close()
		t.Error("a node answers after Close")
	}
	if err := c.Close(); err != nil {
		t.Errorf("second Close: %v", err)
	}
}
