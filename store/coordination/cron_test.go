package coordination

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"
	_ "time/tzdata"
)

func zone(t testing.TB, name string) *time.Location {
	t.Helper()
	loc, err := time.LoadLocation(name)
	if err != nil {
		t.Fatal(err)
	}
	return loc
}

func mustCron(t testing.TB, expr string, loc *time.Location) *cron {
	t.Helper()
	c, err := parseCron(expr, loc)
	if err != nil {
		t.Fatal(err)
	}
	return c
}

// between returns the ticks in (from, to].
func between(tt timetable, from, to time.Time) []time.Time {
	var all []time.Time
	for t := tt.next(from); !t.IsZero() && !t.After(to); t = tt.next(t) {
		all = append(all, t)
	}
	return all
}

func TestCO09_DailyRunsOncePerDayOverChangesOfTheClock(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	c := mustCron(t, "30 2 * * *", berlin)
	for _, change := range []struct {
		day  time.Time
		want string
	}{
		{time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), "2026-03-29T03:00:00+02:00"},  // 02:30 is skipped
		{time.Date(2026, 10, 25, 0, 0, 0, 0, berlin), "2026-10-25T02:30:00+02:00"}, // and comes twice
	} {
		ticks := between(c, change.day.AddDate(0, 0, -3), change.day.AddDate(0, 0, 4))
		var days []string
		for _, tick := range ticks {
			days = append(days, tick.Format("01-02"))
			if want := "02:30"; tick.Format("01-02") != change.day.Format("01-02") && tick.Format("15:04") != want {
				t.Errorf("runs at %v", tick)
			}
		}
		if len(days) != 7 || len(slices.Compact(days)) != 7 {
			t.Errorf("runs on %v, want each of 7 days once", days)
		}
		if got := ticks[3].Format(time.RFC3339); got != change.want {
			t.Errorf("runs at %s, want %s", got, change.want)
		}
	}
}

func TestCO09_EveryFifteenSecondsHasNeitherGapNorSpin(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	for _, expr := range []string{"*/15 * * * * *", "0,15,30,45 * * * * ?"} {
		c := mustCron(t, expr, berlin)
		for _, day := range []time.Time{time.Date(2026, 3, 29, 0, 0, 0, 0, berlin), time.Date(2026, 10, 25, 0, 0, 0, 0, berlin)} {
			end := day.AddDate(0, 0, 1)
			ticks := between(c, day, end)
			if want := int(end.Sub(day) / (15 * time.Second)); len(ticks) != want {
				t.Errorf("%s: %d ticks on %v, want %d", expr, len(ticks), day, want)
			}
			for i := 1; i < len(ticks); i++ {
				if gap := ticks[i].Sub(ticks[i-1]); gap != 15*time.Second {
					t.Fatalf("%s: %v between %v and %v", expr, gap, ticks[i-1], ticks[i])
				}
			}
		}
	}
}

func TestCronSkippedTimesBecomeOneTick(t *testing.T) {
	berlin := zone(t, "Europe/Berlin")
	day := time.Date(2026, 3, 29, 0, 0, 0, 0, berlin)
	for expr, want := range map[string][]string{
		"*/15 2 * * *":  {"03:00:00"},
		"0 2,3 * * *":   {"03:00:00"},
		"30 1-4 * * *":  {"01:30:00", "03:00:00", "03:30:00", "04:30:00"},
		"0 */2 * * *":   {"03:00:00", "04:00:00", "06:00:00", "08:00:00", "10:00:00", "12:00:00", "14:00:00", "16:00:00", "18:00:00", "20:00:00", "22:00:00"},
		"15 30 2 * * 0": {"03:00:00"},
	} {
		var got []string
		for _, tick := range between(mustCron(t, expr, berlin), day, day.AddDate(0, 0, 1).Add(-time.Second)) {
			got = append(got, tick.Format("15:04:05"))
		}
		if !slices.Equal(got, want) {
			t.Errorf("%s: ticks at %v, want %v", expr, got, want)
		}
	}
}

func TestCronCalendar(t *testing.T) {
	from := time.Date(2026, 1, 15, 12, 0, 0, 0, time.UTC) // a Thursday
	for expr, want := range map[string]string{
		"@yearly":              "2027-01-01T00:00:00Z",
		"@ANNUALLY":            "2027-01-01T00:00:00Z",
		"@monthly":             "2026-02-01T00:00:00Z",
		"@weekly":              "2026-01-18T00:00:00Z",
		"@daily":               "2026-01-16T00:00:00Z",
		"@midnight":            "2026-01-16T00:00:00Z",
		"@hourly":              "2026-01-15T13:00:00Z",
		"0 12 * * *":           "2026-01-16T12:00:00Z",
		"1 12 * * *":           "2026-01-15T12:01:00Z",
		"5 0 12 * * *":         "2026-01-15T12:00:05Z",
		"0 0 29 2 *":           "2028-02-29T00:00:00Z",
		"0 0 29 2 */6":         "2032-02-29T00:00:00Z", // on a Saturday or Sunday
		"0 0 29 2 */7":         "2032-02-29T00:00:00Z",
		"0 0 13 * fri":         "2026-01-16T00:00:00Z", // either is enough
		"0 0 */13 * FRI":       "2026-02-27T00:00:00Z", // a star: both are needed; the 1st, 14th and 27th
		"0 0 * * 7":            "2026-01-18T00:00:00Z",
		"0 0 * * 5-7":          "2026-01-16T00:00:00Z",
		"0 0 ? mar-may mon":    "2026-03-02T00:00:00Z",
		"10-40/10 * * * *":     "2026-01-15T12:10:00Z",
		"50/4 12 * * *":        "2026-01-15T12:50:00Z",
		"59 59 23 31 12 *":     "2026-12-31T23:59:59Z",
		"0 0 31 apr,may *":     "2026-05-31T00:00:00Z",
		"0 0 0 1 jan,jul sun":  "2026-01-18T00:00:00Z", // the Sundays of January come first
		"0 0 30 feb mon":       "2026-02-02T00:00:00Z", // the Mondays
		"  0\t0  1  1   *    ": "2027-01-01T00:00:00Z",
	} {
		if got := mustCron(t, expr, time.UTC).next(from).Format(time.RFC3339); got != want {
			t.Errorf("%s: next is %s, want %s", expr, got, want)
		}
	}
}

func TestCronRefuses(t *testing.T) {
	for expr, word := range map[string]string{
		"":                "fields",
		"* * * *":         "fields",
		"* * * * * * *":   "fields",
		"60 * * * *":      "minute",
		"* 24 * * *":      "hour",
		"* * 0 * *":       "day of month",
		"* * 32 * *":      "day of month",
		"* * * 13 *":      "month",
		"* * * foo *":     "month",
		"* * * * 8":       "day of week",
		"* * * * sat-mon": "ends before",
		"*/0 * * * *":     "step",
		"*/60 * * * *":    "step",
		"1,,2 * * * *":    "minute",
		"-1 * * * *":      "minute",
		"+1 * * * *":      "minute",
		"1-2-3 * * * *":   "minute",
		"a * * * *":       "minute",
		"0 0 30 2 *":      "never",
		"0 0 31 4,6,9 *":  "never",
		"@often":          "none of",
		"@every 5m":       "none of",
		"* * L * *":       "day of month",
	} {
		_, err := parseCron(expr, time.UTC)
		var c *CronError
		if !errors.Is(err, ErrInvalid) || !errors.As(err, &c) || !strings.Contains(err.Error(), word) || c.Expr != expr {
			t.Errorf("%q gives %v, want an error about %q", expr, err, word)
		}
	}
}

// TestCronAgreesWithAClockOnTheWall compares the ticks with what somebody would note
// who watches a clock on the wall, minute by minute.
func TestCronAgreesWithAClockOnTheWall(t *testing.T) {
	weeks := []struct {
		zone string
		from time.Time
	}{
		{"UTC", time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)},
		{"Europe/Berlin", time.Date(2026, 3, 27, 0, 0, 0, 0, time.UTC)},
		{"Europe/Berlin", time.Date(2026, 10, 23, 0, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2026, 3, 6, 0, 0, 0, 0, time.UTC)},
		{"America/New_York", time.Date(2026, 10, 30, 0, 0, 0, 0, time.UTC)},
		{"Australia/Lord_Howe", time.Date(2026, 4, 3, 0, 0, 0, 0, time.UTC)}, // half an hour
		{"Australia/Lord_Howe", time.Date(2026, 10, 2, 0, 0, 0, 0, time.UTC)},
		{"America/Sao_Paulo", time.Date(2018, 2, 16, 0, 0, 0, 0, time.UTC)}, // at midnight
		{"America/Sao_Paulo", time.Date(2018, 11, 2, 0, 0, 0, 0, time.UTC)},
		{"America/Havana", time.Date(2026, 10, 30, 0, 0, 0, 0, time.UTC)}, // 00:00 comes twice
		{"Pacific/Apia", time.Date(2011, 12, 28, 0, 0, 0, 0, time.UTC)},   // a whole day is skipped
		{"Asia/Kathmandu", time.Date(2026, 10, 30, 0, 0, 0, 0, time.UTC)},
	}
	rnd := rand.New(rand.NewPCG(1, 2))
	pick := func(top int) string {
		switch rnd.IntN(4) {
		case 0:
			return "*"
		case 1:
			return fmt.Sprintf("*/%d", 1+rnd.IntN(min(top, 20)))
		case 2:
			return fmt.Sprintf("%d-%d", rnd.IntN(top/2+1), top/2+rnd.IntN(top/2+1))
		}
		return fmt.Sprintf("%d,%d", rnd.IntN(top+1), rnd.IntN(top+1))
	}
	for _, w := range weeks {
		loc := zone(t, w.zone)
		end := w.from.AddDate(0, 0, 5)
		shown := watch(loc, w.from, end)
		for range 60 {
			weekday := "*"
			if rnd.IntN(4) == 0 {
				weekday = pick(6)
			}
			expr := pick(59) + " " + pick(23) + " * * " + weekday
			c := mustCron(t, expr, loc)
			want := note(c, shown, w.from, end)
			if got := between(c, w.from, end); !slices.EqualFunc(got, want, time.Time.Equal) {
				t.Fatalf("%s: %q: got %d ticks, want %d\n%v\n%v", w.zone, expr, len(got), len(want), got, want)
			}
		}
	}
}

// minute is what a clock on the wall shows at some instant, as if it were UTC.
type minute struct{ at, shown time.Time }

// watch looks at the clock each minute of (from, to]. It begins a day earlier, so as
// to know what has been shown before.
func watch(loc *time.Location, from, to time.Time) (all []minute) {
	for at := from.AddDate(0, 0, -1); !at.After(to); at = at.Add(time.Minute) {
		l := at.In(loc)
		all = append(all, minute{at, time.Date(l.Year(), l.Month(), l.Day(), l.Hour(), l.Minute(), 0, 0, time.UTC)})
	}
	return all
}

// note notes the ticks of an expression that names whole minutes.
func note(c *cron, all []minute, from, to time.Time) (ticks []time.Time) {
	named := func(w time.Time) bool {
		return c.minute>>w.Minute()&1 != 0 && c.hour>>w.Hour()&1 != 0 && c.onDay(w.Month(), w.Day(), w.Weekday())
	}
	tick := func(at time.Time) {
		if at.After(from) && !at.After(to) && (len(ticks) == 0 || !ticks[len(ticks)-1].Equal(at)) {
			ticks = append(ticks, at)
		}
	}
	latest := all[0].shown
	for _, m := range all[1:] {
		if c.hour == everyHour {
			if named(m.shown) {
				tick(m.at)
			}
			continue
		}
		for w := latest.Add(time.Minute); !w.After(m.shown); w = w.Add(time.Minute) {
			if named(w) {
				tick(m.at)
			}
			latest = w
		}
	}
	return ticks
}

func TestEveryIsDueAtMultiples(t *testing.T) {
	at := time.Date(2026, 3, 29, 0, 59, 59, 999_999_999, time.UTC)
	for _, c := range []struct {
		step time.Duration
		want time.Time
	}{
		{time.Second, time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)},
		{time.Hour, time.Date(2026, 3, 29, 1, 0, 0, 0, time.UTC)},
		{1500 * time.Microsecond, time.UnixMicro((at.UnixMicro()/1500 + 1) * 1500)},
	} {
		got := every(c.step).next(at)
		if !got.Equal(c.want) {
			t.Errorf("every %v after %v is %v, want %v", c.step, at, got, c.want)
		}
		if again := every(c.step).next(got); again.Sub(got) != c.step {
			t.Errorf("every %v comes after %v", c.step, again.Sub(got))
		}
	}
}

func FuzzCron(f *testing.F) {
	for _, expr := range []string{"* * * * *", "*/15 * * * * *", "30 2 * * *", "0 0 29 2 *", "@daily", "0 0 */13 * FRI"} {
		f.Add(expr, int64(1_774_746_000))
	}
	loc := zone(f, "Europe/Berlin")
	f.Fuzz(func(t *testing.T, expr string, at int64) {
		c, err := parseCron(expr, loc)
		if err != nil {
			return
		}
		from := time.Unix(at&(1<<32-1), 0)
		next := c.next(from)
		if next.IsZero() || !next.After(from) {
			t.Errorf("%q: next after %v is %v", expr, from, next)
		}
	})
}

func BenchmarkCronNext(b *testing.B) {
	loc := zone(b, "Europe/Berlin")
	for name, expr := range map[string]string{"daily": "30 2 * * *", "leap day": "0 0 29 2 *", "seconds": "*/15 * * * * *"} {
		b.Run(name, func(b *testing.B) {
			c, at := mustCron(b, expr, loc), time.Date(2026, 3, 28, 12, 0, 0, 0, loc)
			b.ReportAllocs()
			for b.Loop() {
				c.next(at)
			}
		})
	}
}
