package engine

import "context"

// Notifier is an Engine whose database can wake its clients, as PostgreSQL does with
// LISTEN and NOTIFY. It saves those who wait for others' writes from asking often.
// It is never needed for correctness: a notification may be lost, and may come
// without need.
type Notifier interface {
	Engine

	// Notification returns a statement that wakes the listeners of a channel when
	// its transaction commits. The channel's name consists of lower case letters
	// and underscores. The statement's Result means nothing.
	Notification(channel string) Statement

	// Listen calls wake for each notification of a channel, several at once perhaps
	// only once, and once when it begins to listen. wake must not block. Listen
	// blocks until ctx ends or listening fails, and returns why.
	Listen(ctx context.Context, channel string, wake func()) error
}
