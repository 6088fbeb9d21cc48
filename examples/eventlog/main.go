// The program eventlog is a small reactor in two processes: orders are published
// to a log, and two reactors on the same database bill each of them exactly once,
// although both see every event and one is killed in the middle of its work.
//
// A reactor keeps its position and its bill in the same transaction, so that
// whichever process commits first has moved the position on, and the other one finds
// that there is nothing left to do.
package main

import (
	"context"
	"errors"
	"flag"
	"fmt"
	"io"
	"log"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"time"

	"github.com/quorate/quorate/store/sqlite"
	"github.com/quorate/quorate/store/workspace"
)

// reactorEnv makes the program a reactor of that name, on the database in dbEnv.
const (
	reactorEnv = "EVENTLOG_REACTOR"
	dbEnv      = "EVENTLOG_DB"
)

var (
	orders = workspace.Ref{Tenant: "shop", Workspace: "orders"}
	rule   = "bill every order"
)

// order is the payload of order:placed, bill that of order:billed.
type order struct {
	Order string `json:"order"`
	Total int64  `json:"total"`
}

type bill struct {
	Order string `json:"order"`
	Total int64  `json:"total"`
	By    string `json:"by"`
}

func main() {
	n := flag.Int("orders", 400, "how many orders to publish")
	flag.Parse()
	ctx, stop := signal.NotifyContext(context.Background(), os.Interrupt)
	defer stop()
	if name := os.Getenv(reactorEnv); name != "" {
		if err := react(ctx, os.Getenv(dbEnv), name); err != nil {
			log.Fatal(err)
		}
		return
	}
	dir, err := os.MkdirTemp("", "eventlog")
	if err != nil {
		log.Fatal(err)
	}
	err = stage(ctx, filepath.Join(dir, "eventlog.db"), *n, os.Stdout)
	if err := errors.Join(err, os.RemoveAll(dir)); err != nil {
		log.Fatal(err)
	}
}

// open opens the log in a database file.
func open(ctx context.Context, db string) (ws *workspace.Store, closeAll func() error, err error) {
	eng, err := sqlite.Open(db)
	if err != nil {
		return nil, nil, err
	}
	ws, err = workspace.Open(ctx, eng, workspace.WithPollInterval(50*time.Millisecond))
	if err != nil {
		return nil, nil, errors.Join(err, eng.Close())
	}
	return ws, func() error { return errors.Join(ws.Close(), eng.Close()) }, nil
}

// react bills orders until ctx ends or standard input does. It wakes up for every
// event, and handles what is behind the rule's position.
func react(ctx context.Context, db, name string) error {
	ctx, stop := context.WithCancel(ctx)
	defer stop()
	go func() {
		_, _ = io.Copy(io.Discard, os.Stdin) // ends with the program that started this one
		stop()
	}()
	ws, closeAll, err := open(ctx, db)
	if err != nil {
		return err
	}
	for e, err := range ws.Subscribe(ctx, orders, 0) {
		if ctx.Err() != nil {
			break
		}
		if err != nil {
			return errors.Join(err, closeAll())
		}
		if err := handle(ctx, ws, name, e.Seq); err != nil && ctx.Err() == nil {
			return errors.Join(err, closeAll())
		}
	}
	return closeAll()
}

// handle moves the rule on to position seq, if nobody has, and bills what it passes.
func handle(ctx context.Context, ws *workspace.Store, name string, seq int64) error {
	return ws.Transact(ctx, orders, func(ctx context.Context, tx *workspace.Tx) error {
		progress, _, err := tx.Progress(ctx, rule)
		if err != nil || progress.Cursor >= seq {
			return err
		}
		events, err := tx.Read(ctx, progress.Cursor, 5)
		if err != nil {
			return err
		}
		for _, e := range events {
			progress.Cursor = e.Seq
			if e.Type != "order:placed" {
				continue
			}
			o, err := workspace.Decode[order](e)
			if err != nil {
				return err
			}
			fact, err := workspace.NewEntry("order:billed", workspace.System(name), bill{o.Order, o.Total, name})
			if err != nil {
				return err
			}
			fact.CorrelationID = e.CorrelationID
			if _, err := tx.Append(ctx, fact); err != nil {
				return err
			}
		}
		return tx.SaveProgress(ctx, rule, progress)
	})
}

// stage publishes orders, lets two reactors bill them, kills one halfway, and
// verifies the log.
func stage(ctx context.Context, db string, n int, out io.Writer) error {
	ws, closeAll, err := open(ctx, db)
	if err != nil {
		return err
	}
	defer closeAll()
	anna, err := start(ctx, db, "anna")
	if err != nil {
		return err
	}
	defer anna.end()
	ben, err := start(ctx, db, "ben")
	if err != nil {
		return err
	}
	defer ben.end()
	fmt.Fprintf(out, "two reactors are up, %d orders are published\n", n)
	for i := range n {
		e, err := workspace.NewEntry("order:placed", workspace.User("u1", "customer"), order{fmt.Sprint("o", i), int64(i) * 100})
		if err != nil {
			return err
		}
		if _, err := ws.Append(ctx, orders, e); err != nil {
			return err
		}
		if i == n/2 {
			if err := anna.cmd.Process.Kill(); err != nil {
				return err
			}
			fmt.Fprintf(out, "anna is killed after %d orders\n", i+1)
		}
	}
	return verify(ctx, ws, n, out)
}

// reactor is a process that reacts.
type reactor struct {
	cmd *exec.Cmd
	in  io.Closer
}

// start starts a reactor.
func start(ctx context.Context, db, name string) (*reactor, error) {
	cmd := exec.CommandContext(ctx, os.Args[0])
	cmd.Env = append(os.Environ(), reactorEnv+"="+name, dbEnv+"="+db)
	cmd.Stderr = os.Stderr
	in, err := cmd.StdinPipe()
	if err != nil {
		return nil, err
	}
	if err := cmd.Start(); err != nil {
		return nil, err
	}
	return &reactor{cmd, in}, nil
}

// end lets a reactor end, and waits for that.
func (r *reactor) end() {
	_ = r.in.Close()
	_ = r.cmd.Wait()
}

// verify follows the log until every order is billed, and gives the verdict.
func verify(ctx context.Context, ws *workspace.Store, n int, out io.Writer) error {
	ctx, stop := context.WithTimeout(ctx, 30*time.Second)
	defer stop()
	bills, by := make(map[string]int), make(map[string]int)
	seq := int64(0)
	for e, err := range ws.Subscribe(ctx, orders, 0) {
		if err != nil {
			return fmt.Errorf("%d of %d orders are billed: %w", len(bills), n, err)
		}
		if seq++; e.Seq != seq {
			return fmt.Errorf("event %d follows event %d", e.Seq, seq-1)
		}
		if e.Type == "order:billed" {
			b, err := workspace.Decode[bill](e)
			if err != nil {
				return err
			}
			bills[b.Order]++
			by[b.By]++
		}
		if len(bills) == n && seq >= int64(2*n) {
			break
		}
	}
	// The survivor is still there: a second bill would come from it.
	head, err := ws.HeadSeq(ctx, orders)
	if err != nil {
		return err
	}
	for id, times := range bills {
		if times != 1 {
			return fmt.Errorf("order %s is billed %d times", id, times)
		}
	}
	if head != int64(2*n) {
		return fmt.Errorf("the log has %d events, want %d", head, 2*n)
	}
	fmt.Fprintf(out, "anna billed %d, ben %d\n", by["anna"], by["ben"])
	fmt.Fprintf(out, "verdict: %d orders, each billed exactly once\n", n)
	return nil
}
