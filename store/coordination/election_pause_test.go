//go:build unix

package coordination

import (
	"context"
	"fmt"
	"os"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/quorate/quorate/store/internal/retry"
)

// TestCO05_PausedLeader stops a leader for three leases, with a rival and without
// one.
func TestCO05_PausedLeader(t *testing.T) {
	for _, rival := range []bool{true, false} {
		t.Run(fmt.Sprint("rival=", rival), func(t *testing.T) {
			p, eng, path := opened(t)
			ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
			defer cancel()
			c := spawn(t, "lead")
			c.Send(path)
			c.Receive()
			c.Send("lead")
			if answer := c.Receive(); answer != "1" {
				t.Fatal(answer)
			}
			signal := func(s os.Signal) {
				t.Helper()
				if err := c.Cmd.Process.Signal(s); err != nil {
					t.Fatal(err)
				}
			}
			stopOutside(t, ctx, eng, c.Cmd.Process)
			defer signal(syscall.SIGCONT)
			c.Send("write") // ready to go when it is let go
			stopped := time.Now()
			e, err := p.Election("leader", leadOptions)
			if err != nil {
				t.Fatal(err)
			}
			stop := func() {}
			if rival {
				standing, end := context.WithCancel(ctx)
				begun, ended := make(chan Term), make(chan struct{})
				go func() {
					defer close(ended)
					_ = e.Lead(standing, func(ctx context.Context, term Term) error {
						select {
						case begun <- term:
						case <-ctx.Done():
						}
						<-ctx.Done()
						return nil
					})
				}()
				stop = func() { end(); <-ended }
				defer stop()
				var term Term
				select {
				case term = <-begun:
				case <-ctx.Done():
					t.Fatal("the rival does not lead:", ctx.Err())
				}
				if term.Number != 2 || term.Transitions != 1 {
					t.Errorf("the rival leads term %+v", term)
				}
				if accepted, err := fencedWrite(ctx, eng, term.Number); !accepted || err != nil {
					t.Fatal(accepted, err)
				}
			}
			retry.Sleep(ctx, time.Until(stopped.Add(3*leadOptions.Lease)))
			signal(syscall.SIGCONT)
			answer := c.Receive()
			if want := fmt.Sprint(!rival); !strings.HasPrefix(answer, want+" ") || !strings.Contains(answer, "lost") {
				t.Errorf("accepted, cause: %q, want %s and lost", answer, want)
			}
			stop()
			// It leads again, in a new term, without being started anew.
			c.Send("lead")
			if term, answer := map[bool]string{true: "3", false: "2"}[rival], c.Receive(); answer < term {
				t.Errorf("leads again in term %s, want %s or greater", answer, term)
			}
		})
	}
}
