package store

import "testing"

func TestStatus(t *testing.T) {
	for _, c := range []struct {
		status          Status
		valid, finished bool
	}{
		{StatusPending, true, false}, {StatusRunning, true, false}, {StatusSuspended, true, false},
		{StatusCancelling, true, false}, {StatusDone, true, true}, {StatusCancelled, true, true},
		{StatusFailed, true, true}, {"", false, false}, {"done", false, false}, {"DONE ", false, false},
	} {
		if c.status.Valid() != c.valid || c.status.Finished() != c.finished {
			t.Errorf("%q: valid %v, finished %v", c.status, c.status.Valid(), c.status.Finished())
		}
	}
}
