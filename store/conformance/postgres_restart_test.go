package conformance

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"os/exec"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/quorate/quorate/actor"
	"github.com/quorate/quorate/store"
	"github.com/quorate/quorate/store/postgres"
)

// privatePostgres starts a server that a test may maltreat, or skips it and says
// what is missing. It returns its URL and how to restart it.
func privatePostgres(t *testing.T) (url string, restart func(mode string) error) {
	t.Helper()
	const script = "../../.ci/postgres"
	if _, err := exec.LookPath("bash"); err != nil {
		t.Skip("no bash, which ", script, " needs to start a server: install bash to run this")
	}
	run := func(env []string, args ...string) (string, error) {
		cmd := exec.Command("bash", append([]string{script}, args...)...)
		cmd.Env = append(os.Environ(), env...)
		var out, errOut bytes.Buffer
		cmd.Stdout, cmd.Stderr = &out, &errOut
		if err := cmd.Run(); err != nil {
			return "", fmt.Errorf("%w: %s", err, errOut.String())
		}
		return out.String(), nil
	}
	out, err := run(nil, "start")
	var exit *exec.ExitError
	if errors.As(err, &exit) && exit.ExitCode() == 3 {
		t.Skip("no PostgreSQL server is installed: install Debian's postgresql, or set PGBIN to the folder of initdb and pg_ctl")
	} else if err != nil {
		t.Fatal(err)
	}
	var env []string
	for line := range strings.Lines(out) {
		name, value, _ := strings.Cut(strings.TrimPrefix(strings.TrimSpace(line), "export "), "=")
		value = strings.Trim(value, "'")
		env = append(env, name+"="+value)
		if name == "QUORATE_POSTGRES_URL" {
			url = value
		}
	}
	t.Cleanup(func() {
		if _, err := run(env, "stop"); err != nil {
			t.Error(err)
		}
	})
	return url, func(mode string) error { _, err := run(env, "restart", mode); return err }
}

// A server that is stopped, and one that crashes, under load: every future
// resolves, nothing acknowledged is lost, and nothing is done twice.
func TestPostgresRestartUnderLoadLosesNothing(t *testing.T) {
	url, restart := privatePostgres(t)
	eng, err := postgres.Open(t.Context(), url)
	if err != nil {
		t.Fatal(err)
	}
	st, err := store.Open(t.Context(), eng, store.WithLogger(slog.New(slog.DiscardHandler)))
	if err != nil {
		t.Fatal(err)
	}
	defer st.Close()
	s, err := actor.New(st)
	if err != nil {
		t.Fatal(err)
	}
	const workers = 24
	var progress atomic.Int64
	further := make(chan struct{}, 1) // another 200 commits
	var acknowledged, unknown [workers]int64
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for w := range workers {
		wg.Go(func() {
			x := store.NewExecution("d")
			x.ID = fmt.Sprint("x", w)
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				done, err := s.Commit(t.Context(), &store.Commit{Execution: x, Emits: []store.Emit{{Event: store.Event{ID: fmt.Sprint(w, "-", n)}}}}).Await(t.Context())
				switch {
				case err == nil:
					acknowledged[w]++
					x = done.Execution()
					if progress.Add(1)%200 == 0 {
						select {
						case further <- struct{}{}:
						default:
						}
					}
				case errors.Is(err, store.ErrOutcomeUnknown):
					unknown[w]++
					if x, err = s.Load(t.Context(), x.ID).Await(t.Context()); err != nil {
						t.Error(err)
						return
					}
				default:
					t.Errorf("worker %d: %v", w, err)
					return
				}
			}
		})
	}
	for _, mode := range []string{"fast", "immediate"} {
		<-further
		if err := restart(mode); err != nil {
			t.Error(err)
		}
		select {
		case <-further: // of before
		default:
		}
	}
	<-further
	close(stop)
	wg.Wait()
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	if _, err := s.Close(ctx); err != nil {
		t.Error(err)
	}
	var versions, doubts int64
	for w := range workers {
		x, err := st.Load(ctx, fmt.Sprint("x", w))
		if err != nil {
			t.Fatal(err)
		}
		if x.Version < acknowledged[w] || x.Version > acknowledged[w]+unknown[w] {
			t.Errorf("worker %d: version %d, %d commits acknowledged and %d unknown", w, x.Version, acknowledged[w], unknown[w])
		}
		versions += x.Version
		doubts += unknown[w]
	}
	if n := count(t, eng, "SELECT count(*) AS n FROM outbox"); n != versions {
		t.Errorf("%d events of %d commits", n, versions)
	}
	t.Logf("%d commits, %d unknown; %+v", versions, doubts, st.Counters())
}
