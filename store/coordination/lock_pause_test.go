//go:build unix

package coordination

import (
	"context"
	"fmt"
	"os"
	"syscall"
	"testing"
	"time"
)

// TestCO05_PausedHolder stops a holder, which is kept alive, for longer than its
// lease, with a rival and without one.
func TestCO05_PausedHolder(t *testing.T) {
	for _, rival := range []bool{true, false} {
		t.Run(fmt.Sprint("rival=", rival), func(t *testing.T) {
			p, eng, path := opened(t)
			c := spawn(t, "hold")
			c.send(path)
			if answer := c.receive(); answer != "1" {
				t.Fatal(answer)
			}
			signal := func(s os.Signal) {
				t.Helper()
				if err := c.cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			signal(syscall.SIGSTOP)
			var status syscall.WaitStatus
			if _, err := syscall.Wait4(c.cmd.Process.Pid, &status, syscall.WUNTRACED, nil); err != nil || !status.Stopped() {
				t.Fatal("not stopped:", err)
			}
			defer signal(syscall.SIGCONT)
			c.send("write") // ready to go when it is let go
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
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
					live = row.live && pause(ctx, holdLease/10)
				}
			}
			signal(syscall.SIGCONT)
			if answer := c.receive(); answer != want {
				t.Errorf("written, valid, cause: %q, want %q", answer, want)
			}
			if rival {
				if err := h.Release(ctx); err != nil {
					t.Error(err)
				}
			}
			// It goes on with a new token, without being started anew.
			c.send("again")
			if token, answer := map[bool]string{true: "3", false: "2"}[rival], c.receive(); answer != token {
				t.Errorf("acquired again with token %q, want %s", answer, token)
			}
		})
	}
}
