package postgres

import (
	"context"
	"errors"
	"testing"

	"github.com/quorate/quorate/store/engine"
)

func TestListenersAreWokenByCommitsAlone(t *testing.T) {
	url := schema(t)
	e, other := open(t, url, WithMaxConns(1)), open(t, url)
	const channel = "quorate_test"
	woken := make(chan struct{}, 100)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- e.Listen(ctx, channel, func() { woken <- struct{}{} }) }()
	<-woken // it listens
	exec(t, other, put("a", 1), other.Notification(channel))
	<-woken
	// Listening takes none of the engine's connections.
	if n := number(t, e, "SELECT v AS n FROM t WHERE k='a'"); n != 1 {
		t.Errorf("what was notified is not there")
	}
	if _, err := other.Exec(t.Context(), []engine.Statement{other.Notification(channel), put("a", 1)}); err == nil {
		t.Error("a key was taken twice")
	}
	exec(t, other, other.Notification("quorate_other"))
	cancel()
	if err := <-ended; !errors.Is(err, context.Canceled) {
		t.Errorf("got %v, want the context's end", err)
	}
	if len(woken) != 0 {
		t.Errorf("woken %d times for nothing", len(woken))
	}
	go func() { ended <- e.Listen(t.Context(), channel, func() { woken <- struct{}{} }) }()
	<-woken
	if err := e.Close(); err != nil {
		t.Error(err)
	}
	if err := <-ended; !errors.Is(err, engine.ErrClosed) {
		t.Errorf("got %v, want closed", err)
	}
	if err := other.Listen(t.Context(), "a b", nil); err == nil {
		t.Error("a channel with a space was taken")
	}
}
