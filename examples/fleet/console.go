package main

import (
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"
	"sync"

	"golang.org/x/term"
)

// console writes to the two outputs: the report to one, progress and complaints
// to the other. On a terminal the progress is one line that is drawn anew, and
// everything else goes above it.
type console struct {
	mu       sync.Mutex
	out, err io.Writer
	fancyOut bool // out is a terminal
	fancyErr bool // err is one
	drawn    bool // a progress line is on the screen
}

func newConsole(out, err io.Writer) *console {
	return &console{out: out, err: err, fancyOut: isTerminal(out), fancyErr: isTerminal(err)}
}

func isTerminal(w io.Writer) bool {
	f, ok := w.(*os.File)
	return ok && term.IsTerminal(int(f.Fd())) && os.Getenv("TERM") != "dumb"
}

// width is the number of columns of the terminal.
func (c *console) width() int {
	if f, ok := c.err.(*os.File); ok {
		if w, _, err := term.GetSize(int(f.Fd())); err == nil && w > 0 {
			return w
		}
	}
	return 80
}

// printf writes to the report.
func (c *console) printf(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.out, format, args...)
}

// complain writes a line about something wrong.
func (c *console) complain(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
	fmt.Fprintf(c.err, "fleet: "+format+"\n", args...)
}

// note writes a line of progress, for outputs that are no terminal.
func (c *console) note(format string, args ...any) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprintf(c.err, format+"\n", args...)
}

// draw replaces the progress line.
func (c *console) draw(line string) {
	c.mu.Lock()
	defer c.mu.Unlock()
	fmt.Fprint(c.err, "\r\x1b[K"+line)
	c.drawn = true
}

// done removes the progress line.
func (c *console) done() {
	c.mu.Lock()
	defer c.mu.Unlock()
	c.clear()
}

func (c *console) clear() {
	if c.drawn {
		fmt.Fprint(c.err, "\r\x1b[K")
		c.drawn = false
	}
}

// Write lets the logger complain.
func (c *console) Write(p []byte) (int, error) {
	c.complain("%s", strings.TrimSuffix(string(p), "\n"))
	return len(p), nil
}

// group formats a number with a comma between thousands.
func group(n int64) string {
	s := strconv.FormatInt(n, 10)
	start := 0
	if n < 0 {
		start = 1
	}
	for i := len(s) - 3; i > start; i -= 3 {
		s = s[:i] + "," + s[i:]
	}
	return s
}
