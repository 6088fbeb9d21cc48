package coordination

import (
	"math/bits"
	"time"
)

// cronHorizon bounds the search for the next tick, in days. The 29th of February is at
// most 8 years away, a given day of the week on it 40 years.
const cronHorizon = 41 * 366

// next returns the first tick after t. Where the clocks change, it holds the rule
// that [Runner.Cron] states: an expression that names every hour goes by the passing
// of time; another runs once for each time of day that it names.
func (c *cron) next(t time.Time) time.Time {
	if c.hour == everyHour {
		return c.nextPassing(t)
	}
	return c.nextNamed(t)
}

// nextNamed searches times of day in their order. As instants they never go
// backward: those that a change of the clocks skips all become the instant of the
// change, and those that it repeats the first of the two.
func (c *cron) nextNamed(t time.Time) time.Time {
	local := t.In(c.loc)
	day := wallClock{local.Year(), local.Month(), local.Day(), 0}
	from := (local.Hour()*60+local.Minute())*60 + local.Second() + 1
	for range cronHorizon {
		if date := day.utc(); c.onDay(date.Month(), date.Day(), date.Weekday()) {
			for s := c.secondOfDay(from); s >= 0; s = c.secondOfDay(s + 1) {
				if at := (wallClock{day.year, day.month, day.day, s}).in(c.loc); at.After(t) {
					return at
				}
			}
		}
		day, from = day.tomorrow(), 0
	}
	return time.Time{}
}

// secondOfDay returns the first named time of day from a second of it on, or -1.
func (c *cron) secondOfDay(from int) int {
	h, m, s := from/3600, from/60%60, from%60
	if h > 23 {
		return -1
	}
	if c.hour>>h&1 != 0 {
		if c.minute>>m&1 != 0 {
			if next := bits.TrailingZeros64(c.second >> s << s); next < 64 {
				return (h*60+m)*60 + next
			}
		}
		if next := bits.TrailingZeros64(c.minute >> (m + 1) << (m + 1)); next < 64 {
			return (h*60+next)*60 + bits.TrailingZeros64(c.second)
		}
	}
	if next := bits.TrailingZeros64(c.hour >> (h + 1) << (h + 1)); next < 64 {
		return (next*60+bits.TrailingZeros64(c.minute))*60 + bits.TrailingZeros64(c.second)
	}
	return -1
}

// nextPassing searches instants in their order, whatever the clock on the wall does
// meanwhile.
func (c *cron) nextPassing(t time.Time) time.Time {
	at := t.Truncate(time.Second).Add(time.Second).In(c.loc)
	for end := at.AddDate(0, 0, cronHorizon); at.Before(end); {
		month, day := at.Month(), at.Day()
		if !c.onDay(month, day, at.Weekday()) {
			at = wallClock{at.Year(), month, day, 0}.tomorrow().in(c.loc)
			continue
		}
		if c.minute>>at.Minute()&1 == 0 {
			at = at.Add(time.Duration(60-at.Second()) * time.Second)
			continue
		}
		s := at.Second()
		next := bits.TrailingZeros64(c.second >> s << s)
		if next == s {
			return at
		}
		at = at.Add(time.Duration(min(next, 60)-s) * time.Second)
	}
	return time.Time{}
}

// wallClock is a time of day, in no zone.
type wallClock struct {
	year   int
	month  time.Month
	day    int
	second int // of the day
}

// utc returns the instant at which clocks in UTC show w.
func (w wallClock) utc() time.Time {
	return time.Date(w.year, w.month, w.day, 0, 0, w.second, 0, time.UTC)
}

// tomorrow returns midnight of the next day.
func (w wallClock) tomorrow() wallClock {
	d := time.Date(w.year, w.month, w.day+1, 0, 0, 0, 0, time.UTC)
	return wallClock{d.Year(), d.Month(), d.Day(), 0}
}

// in returns the first instant at which clocks in loc show w, or, where they skip
// it, the first instant after the gap.
func (w wallClock) in(loc *time.Location) time.Time {
	shown := w.utc().Unix()
	guess := time.Date(w.year, w.month, w.day, 0, 0, w.second, 0, loc)
	begin, end := guess.ZoneBounds()
	// W is shown in the zone that time.Date chose, or in the one before or after it;
	// or in two of them, or in none.
	var first time.Time
	for _, edge := range [3]time.Time{begin.Add(-1), guess, end} {
		_, offset := edge.In(loc).Zone()
		at := time.Unix(shown-int64(offset), 0).In(loc)
		if _, is := at.Zone(); is == offset && (first.IsZero() || at.Before(first)) {
			first = at
		}
	}
	if !first.IsZero() {
		return first
	}
	for _, edge := range [2]time.Time{begin, end} {
		if !edge.IsZero() {
			_, before := edge.Add(-1).In(loc).Zone()
			_, after := edge.In(loc).Zone()
			if t := edge.Unix(); t+int64(before) <= shown && shown < t+int64(after) {
				return edge.In(loc)
			}
		}
	}
	return guess
}
