package coordination

import (
	"math/rand/v2"
	"time"

	"github.com/quorate/quorate/store/engine"
)

// There is one rule for everything that ends: it is live iff now < deadline.
//
// Two clocks judge by it. The database's deadlines are microseconds by the clock
// that [Provider.now] binds. A holder itself goes by the monotonic clock of its
// process, counted from the moment before the request was sent, so that it is
// always the first to know.

// now returns a parameter that stands for the present plus offset, in microseconds
// by the database's clock. All of one request mean the same instant.
func (p *Provider) now(offset time.Duration) engine.Value {
	if p.clock != nil {
		return engine.Int(p.clock() + micros(offset))
	}
	return engine.Now(offset)
}

// micros returns d in microseconds, rounded up: what is promised for d never ends
// before it.
func micros(d time.Duration) int64 {
	us := int64(d / time.Microsecond)
	if d%time.Microsecond > 0 {
		us++
	}
	return us
}

// jittered returns d, changed at random by at most the share j of it.
func jittered(d time.Duration, j float64) time.Duration {
	return d + time.Duration((rand.Float64()*2-1)*j*float64(d))
}
