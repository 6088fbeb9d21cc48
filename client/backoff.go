package client

import (
	"time"

	"github.com/cenkalti/backoff/v4"
)

// newRetryBackOff returns the pauses between the attempts of one call. Each call
// has its own. They never end by themselves: a call ends with its context.
func newRetryBackOff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(50*time.Millisecond),
		backoff.WithMultiplier(1.6),
		backoff.WithMaxInterval(250*time.Millisecond),
		backoff.WithRandomizationFactor(0.3),
		backoff.WithMaxElapsedTime(0),
	)
}

// newDiscoveryBackOff returns the pauses between the questions that a client
// asks while it knows no leader: short enough to see the end of an election
// within about 150 ms, long enough for a few requests per second in all.
func newDiscoveryBackOff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(25*time.Millisecond),
		backoff.WithMultiplier(1.5),
		backoff.WithMaxInterval(140*time.Millisecond),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxElapsedTime(0),
	)
}

// newWatchBackOff returns the pauses between the questions that a client asks
// the other nodes while one node does not answer.
func newWatchBackOff() backoff.BackOff {
	return backoff.NewExponentialBackOff(
		backoff.WithInitialInterval(200*time.Millisecond),
		backoff.WithMultiplier(1.3),
		backoff.WithMaxInterval(time.Second),
		backoff.WithRandomizationFactor(0.2),
		backoff.WithMaxElapsedTime(0),
	)
}

// How long a node that cannot be reached is left alone.
const (
	firstDownTime = 100 * time.Millisecond
	maxDownTime   = 5 * time.Second
)

// downTime doubles with each failure in a row.
func downTime(failures int) time.Duration {
	d := firstDownTime
	for range failures - 1 {
		if d *= 2; d >= maxDownTime {
			return maxDownTime
		}
	}
	return d
}
