package batcher

import (
	"context"
	"errors"
	"fmt"
	"testing"
	"testing/synctest"
	"time"
)

func TestLimit(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, l := newGate(), newLog()
		b := mustNew(t, Config[int]{
			Limit: time.Second,
			Flush: func(ctx context.Context, got batch) { l.flushed(got); g.wait(ctx) },
			Drop:  l.drop, Overdue: l.late,
		})
		mustSubmit(t, b, &ticket{Item: 0, Key: "a"})
		mustSubmit(t, b, &ticket{Item: 1, Key: "a"}, &ticket{Item: 2, Key: "b"})
		pass(600 * time.Millisecond)
		mustSubmit(t, b, &ticket{Item: 3, Key: "a"})
		pass(399 * time.Millisecond)
		synctest.Wait()
		dropped, overdue := l.told()
		if len(dropped)+len(overdue) > 0 {
			t.Errorf("before the limit: dropped %v, overdue %v", dropped, overdue)
		}
		pass(time.Millisecond)
		synctest.Wait()
		dropped, overdue = l.told()
		if len(dropped) != 2 || dropped[1] != ErrExpired || dropped[2] != ErrExpired || len(overdue) != 0 {
			t.Errorf("at the limit: dropped %v, overdue %v", dropped, overdue)
		}
		pass(100 * time.Millisecond)
		synctest.Wait()
		if _, overdue = l.told(); overdue[0] != 1 {
			t.Errorf("a moment after the limit: overdue %v", overdue)
		}
		pass(500 * time.Millisecond)
		synctest.Wait()
		dropped, overdue = l.told()
		if dropped[3] != ErrExpired || overdue[0] != 1 {
			t.Errorf("at the second limit: dropped %v, overdue %v", dropped, overdue)
		}
		verify(t, b)
		mustSubmit(t, b, &ticket{Item: 4, Key: "a"})
		pass(100 * time.Millisecond)
		g.open()
		synctest.Wait()
		if got := fmt.Sprint(l.seen()); got != "[[0] [4]]" {
			t.Errorf("flushed %s", got)
		}
		pass(time.Minute) // the timer finds nothing more to do
		synctest.Wait()
		dropped, _ = l.told()
		if s := b.Stats(); s.Dropped != 3 || len(dropped) != 3 || b.armed {
			t.Errorf("%+v, dropped %v, armed %v", s, dropped, b.armed)
		}
		mustClose(t, b)
	})
}

// An item whose time is up is not sent any more, even if a slot comes free at the
// very same moment; the one behind it is.
func TestExpiredIsNotSent(t *testing.T) {
	for range 50 {
		bubble(t, func(t *testing.T) {
			l := newLog()
			b := mustNew(t, Config[int]{Limit: time.Second, Drop: l.drop, Flush: func(_ context.Context, got batch) {
				l.flushed(got)
				pass(time.Second)
			}})
			mustSubmit(t, b, &ticket{Item: 0}, &ticket{Item: 1, Key: "k"})
			pass(time.Millisecond)
			mustSubmit(t, b, &ticket{Item: 2, Key: "k"})
			mustClose(t, b)
			if dropped, _ := l.told(); len(dropped) != 1 || dropped[1] != ErrExpired {
				t.Errorf("dropped %v", dropped)
			}
			if got := fmt.Sprint(l.seen()); got != "[[0] [2]]" {
				t.Errorf("flushed %s", got)
			}
		})
	}
}

// Room comes back when items expire, so callers do not wait for a dead flight.
func TestExpiryMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate()
		b := mustNew(t, Config[int]{MaxPending: 2, Limit: time.Second, Flush: func(ctx context.Context, _ batch) { g.wait(ctx) }})
		mustSubmit(t, b, &ticket{}, &ticket{})
		start := time.Now()
		mustSubmit(t, b, &ticket{})
		if d := time.Since(start); d != time.Second {
			t.Errorf("room after %v", d)
		}
		g.open()
		mustClose(t, b)
	})
}

func TestWithdraw(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g, l := newGate(), newLog()
		b := mustNew(t, Config[int]{
			Limit: time.Minute,
			Flush: func(ctx context.Context, got batch) { l.flushed(got); g.wait(ctx) },
			Drop:  l.drop,
		})
		reason := errors.New("not wanted any more")
		tickets := make([]*ticket, 9)
		for i := range tickets {
			tickets[i] = &ticket{Item: i, Key: "k"}
			if i >= 6 {
				tickets[i].Key = ""
			}
			mustSubmit(t, b, tickets[i])
		}
		synctest.Wait()
		if b.Withdraw(tickets[0], reason) {
			t.Error("withdrew an item in flight")
		}
		for _, i := range []int{2, 5, 1, 7} { // middle, last and first of those that wait, and one without a key
			if !b.Withdraw(tickets[i], reason) || l.dropped[i] != reason {
				t.Errorf("item %d: dropped with %v", i, l.dropped[i])
			}
			verify(t, b)
		}
		if !b.Withdraw(tickets[2], errors.New("again")) || l.dropped[2] != reason {
			t.Error("an item that was withdrawn was not, the second time")
		}
		mustSubmit(t, b, &ticket{Item: 9, Key: "k"})
		g.open()
		mustClose(t, b)
		if got, want := fmt.Sprint(l.seen()), "[[0] [6 8 3] [4] [9]]"; got != want {
			t.Errorf("flushed %s, want %s", got, want)
		}
		if b.Withdraw(tickets[3], reason) {
			t.Error("withdrew an item that was flushed")
		}
		if s := b.Stats(); s.Dropped != 4 || s.Items != 6 {
			t.Errorf("%+v", s)
		}
	})
}

// Withdrawing what shut the gate, or what filled the queue, lets others go on.
func TestWithdrawMakesRoom(t *testing.T) {
	bubble(t, func(t *testing.T) {
		g := newGate()
		b := mustNew(t, Config[int]{MaxPending: 2, Flush: func(ctx context.Context, _ batch) { g.wait(ctx) }})
		queued := &ticket{}
		mustSubmit(t, b, &ticket{}, queued)
		admitted := make(chan error, 1)
		go func() { admitted <- b.Submit(t.Context(), &ticket{}) }()
		synctest.Wait()
		b.Withdraw(queued, errors.New("gone")) // with nobody to tell
		if err := <-admitted; err != nil {
			t.Error(err)
		}
		g.open()
		mustClose(t, b)
	})
}
