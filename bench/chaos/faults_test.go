package main

import (
	"errors"
	"slices"
	"testing"
)

// A fault is made good however far it got, and nothing that went wrong is kept
// back.
func TestFaultIsMadeGood(t *testing.T) {
	stuck, leaderless, gone := errors.New("did not stop"), errors.New("no leader"), errors.New("did not start")
	for _, c := range []struct {
		do, last, undo error
		steps          []string
	}{
		{nil, nil, nil, []string{"do", "last", "undo"}},
		{stuck, nil, nil, []string{"do", "undo"}},
		{stuck, nil, gone, []string{"do", "undo"}},
		{nil, leaderless, gone, []string{"do", "last", "undo"}},
	} {
		var steps []string
		step := func(name string, err error) func() error {
			return func() error { steps = append(steps, name); return err }
		}
		err := carryOut(step("do", c.do), step("last", c.last), step("undo", c.undo))
		if !slices.Equal(steps, c.steps) {
			t.Errorf("%v: %v, want %v", err, steps, c.steps)
		}
		for _, want := range []error{c.do, c.last, c.undo} {
			if want != nil && !errors.Is(err, want) {
				t.Errorf("%v does not tell of %v", err, want)
			}
		}
		if c.do == nil && c.last == nil && c.undo == nil && err != nil {
			t.Error(err)
		}
	}
}
