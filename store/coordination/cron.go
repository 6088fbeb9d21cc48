package coordination

import (
	"fmt"
	"math/bits"
	"strconv"
	"strings"
	"time"
)

// CronError says why a cron expression was refused. It matches [ErrInvalid].
type CronError struct {
	// Expr is the expression.
	Expr string
	// Field is the name of the field at fault, or empty.
	Field string
	// Reason says what is wrong with it.
	Reason string
}

// Error returns the expression, the field and the reason.
func (e *CronError) Error() string {
	if e.Field != "" {
		return fmt.Sprintf("invalid cron expression %q: %s: %s", e.Expr, e.Field, e.Reason)
	}
	return fmt.Sprintf("invalid cron expression %q: %s", e.Expr, e.Reason)
}

// Is reports whether target is ErrInvalid.
func (e *CronError) Is(target error) bool { return target == ErrInvalid }

// cron is a parsed expression in a time zone. Bit n of a field is the value n.
type cron struct {
	second, minute, hour, day, month, weekday uint64
	anyDay, anyWeekday                        bool // the field is a star
	loc                                       *time.Location
}

type cronField struct {
	name     string
	low, top int
	names    string // of the values from low on, three letters each
}

var cronFields = [6]cronField{
	{"second", 0, 59, ""},
	{"minute", 0, 59, ""},
	{"hour", 0, 23, ""},
	{"day of month", 1, 31, ""},
	{"month", 1, 12, "janfebmaraprmayjunjulaugsepoctnovdec"},
	{"day of week", 0, 7, "sunmontuewedthufrisat"},
}

var cronMacros = map[string]string{
	"@yearly":   "0 0 0 1 1 *",
	"@annually": "0 0 0 1 1 *",
	"@monthly":  "0 0 0 1 * *",
	"@weekly":   "0 0 0 * * 0",
	"@daily":    "0 0 0 * * *",
	"@midnight": "0 0 0 * * *",
	"@hourly":   "0 0 * * * *",
}

// everyHour is the hour field of an expression that goes by the passing of time.
const everyHour = 1<<24 - 1

// parseCron parses an expression: see [Runner.Cron].
func parseCron(expr string, loc *time.Location) (*cron, error) {
	text := expr
	if strings.HasPrefix(expr, "@") {
		if text = cronMacros[strings.ToLower(expr)]; text == "" {
			return nil, &CronError{expr, "", "is none of @yearly, @annually, @monthly, @weekly, @daily, @midnight, @hourly"}
		}
	}
	parts := strings.Fields(text)
	if len(parts) == 5 {
		parts = append([]string{"0"}, parts...)
	}
	if len(parts) != 6 {
		return nil, &CronError{expr, "", fmt.Sprintf("has %d fields, want 5, or 6 with seconds first", len(parts))}
	}
	var sets [6]uint64
	for i, f := range cronFields {
		set, reason := f.parse(parts[i])
		if reason != "" {
			return nil, &CronError{expr, f.name, reason}
		}
		sets[i] = set
	}
	c := &cron{
		second: sets[0], minute: sets[1], hour: sets[2], day: sets[3], month: sets[4],
		weekday:    sets[5]&0x7f | sets[5]>>7, // 7 is Sunday too
		anyDay:     strings.HasPrefix(parts[3], "*") || parts[3] == "?",
		anyWeekday: strings.HasPrefix(parts[5], "*") || parts[5] == "?",
		loc:        loc,
	}
	if !c.possible() {
		return nil, &CronError{expr, "day of month", "never comes in these months"}
	}
	return c, nil
}

// parse returns the set of a field's values, or why there is none.
func (f *cronField) parse(text string) (set uint64, reason string) {
	for part := range strings.SplitSeq(text, ",") {
		span, stepText, stepped := strings.Cut(part, "/")
		step := 1
		if stepped {
			n, err := strconv.Atoi(stepText)
			if err != nil || n < 1 || n > f.top {
				return 0, fmt.Sprintf("%q is no step from 1 to %d", stepText, f.top)
			}
			step = n
		}
		low, high := f.low, f.top
		if f.top == 7 {
			high = 6 // a star names Sunday once
		}
		if span != "*" && span != "?" {
			from, to, ranged := strings.Cut(span, "-")
			if low, reason = f.value(from); reason != "" {
				return 0, reason
			}
			switch {
			case ranged:
				if high, reason = f.value(to); reason != "" {
					return 0, reason
				}
			case !stepped:
				high = low
			}
			if high < low {
				return 0, fmt.Sprintf("%q ends before it begins", span)
			}
		}
		for v := low; v <= high; v += step {
			set |= 1 << v
		}
	}
	return set, ""
}

func (f *cronField) value(text string) (int, string) {
	if i := strings.Index(f.names, strings.ToLower(text)); len(text) == 3 && i >= 0 && i%3 == 0 {
		return f.low + i/3, ""
	}
	n, err := strconv.Atoi(text)
	if err != nil || n < f.low || n > f.top || text[0] == '+' || text[0] == '-' {
		return 0, fmt.Sprintf("%q is no value from %d to %d", text, f.low, f.top)
	}
	return n, ""
}

// possible reports whether the day ever comes: not so on the 30th of February.
func (c *cron) possible() bool {
	if !c.anyWeekday {
		return c.anyDay || c.weekday != 0 // either of the two is enough
	}
	longest := [13]int{0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31}
	for m := 1; m <= 12; m++ {
		if c.month>>m&1 != 0 && bits.TrailingZeros64(c.day) <= longest[m] {
			return true
		}
	}
	return false
}

// onDay reports whether the expression names this day. If both the day of the month
// and that of the week are restricted, either is enough.
func (c *cron) onDay(month time.Month, day int, weekday time.Weekday) bool {
	if c.month>>month&1 == 0 {
		return false
	}
	byDay, byWeekday := c.day>>day&1 != 0, c.weekday>>weekday&1 != 0
	if c.anyDay || c.anyWeekday {
		return byDay && byWeekday
	}
	return byDay || byWeekday
}
