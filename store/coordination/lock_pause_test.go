//go:build unix

package coordination

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/store/engine"
	"github.com/quorate/quorate/store/internal/retry"
)

// TestCO05_PausedHolder stops a holder, which is kept alive, for longer than its
// lease, with a rival and without one.
func TestCO05_PausedHolder(t *testing.T) {
	for _, rival := range []bool{true, false} {
		t.Run(fmt.Sprint("rival=", rival), func(t *testing.T) {
			p, eng, path := opened(t)
			c := spawn(t, "hold")
			c.Send(path)
			if answer := c.Receive(); answer != "1" {
				t.Fatal(answer)
			}
			signal := func(s os.Signal) {
				t.Helper()
				if err := c.Cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			stopOutside(t, ctx, eng, c.Cmd.Process)
			defer signal(syscall.SIGCONT)
			c.Send("write") // ready to go when it is let go
			l, err := p.Lock("leader", LockOptions{Retry: 10 * time.Millisecond})
			if err != nil {
				t.Fatal(err)
			}
			want := "true false lost" // nobody else wrote, so nothing speaks against the write
			var h *Held
			if rival {
				want = "false false lost"
				if h, err = l.Acquire(ctx); err != nil {
					t.Fatal(err)
				}
				if accepted, err := fencedWrite(ctx, eng, h.Token()); !accepted || err != nil {
					t.Fatal(accepted, err)
				}
			} else {
				for live := true; live; {
					row, err := p.lockRow(ctx, "leader")
					if err != nil {
						t.Fatal(err)
					}
					live = row.live && retry.Sleep(ctx, holdLease/10)
				}
			}
			signal(syscall.SIGCONT)
			if answer := c.Receive(); answer != want {
				t.Errorf("written, valid, cause: %q, want %q", answer, want)
			}
			if rival {
				if err := h.Release(ctx); err != nil {
					t.Error(err)
				}
			}
			// It goes on with a new token, without being started anew.
			c.Send("again")
			if token, answer := map[bool]string{true: "3", false: "2"}[rival], c.Receive(); answer != token {
				t.Errorf("acquired again with token %q, want %s", answer, token)
			}
		})
	}
}

// stopOutside stops a process that uses the file of eng, but not within a
// transaction: then nobody else could write until it goes on.
func stopOutside(t *testing.T, ctx context.Context, eng engine.Engine, proc *os.Process) {
	t.Helper()
	for {
		if err := proc.Signal(syscall.SIGSTOP); err != nil {
			t.Fatal(err)
		}
		var status syscall.WaitStatus
		if _, err := syscall.Wait4(proc.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
			t.Fatal("not stopped:", err)
		}
		brief, cancel := context.WithTimeout(ctx, 100*time.Millisecond)
		_, err := eng.Exec(brief, []engine.Statement{{SQL: "UPDATE quorate_locks SET version=version WHERE name=''"}})
		cancel()
		if err == nil {
			return
		}
		if ctx.Err() != nil {
			t.Fatal(err)
		}
		if err := proc.Signal(syscall.SIGCONT); err != nil {
			t.Fatal(err)
		}
	}
}
