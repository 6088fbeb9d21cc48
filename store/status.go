package store

// Status is the state of an [Execution] in its life. Its text is what the
// Execution's JSON holds.
type Status string

// The statuses an Execution may have.
const (
	// StatusPending: created, not started. It is the status of a new Execution.
	StatusPending Status = "PENDING"
	// StatusRunning: started and not finished.
	StatusRunning Status = "RUNNING"
	// StatusDone: finished by itself.
	StatusDone Status = "DONE"
	// StatusCancelled: finished because it was cancelled.
	StatusCancelled Status = "CANCELLED"
	// StatusSuspended: paused until it is resumed.
	StatusSuspended Status = "SUSPENDED"
	// StatusCancelling: asked to cancel, still winding down.
	StatusCancelling Status = "CANCELLING"
	// StatusFailed: finished by an error.
	StatusFailed Status = "FAILED"
)

// Valid reports whether s is one of the seven statuses. The empty Status is not.
func (s Status) Valid() bool {
	switch s {
	case StatusPending, StatusRunning, StatusDone, StatusCancelled,
		StatusSuspended, StatusCancelling, StatusFailed:
		return true
	}
	return false
}

// Finished reports whether s is final: done, cancelled or failed. A status that
// is not [Status.Valid] is not finished.
func (s Status) Finished() bool {
	return s == StatusDone || s == StatusCancelled || s == StatusFailed
}
