package main

import (
	"context"
	"fmt"
	"strings"
	"time"
	"unicode/utf8"
)

// How often the progress is shown.
const (
	drawInterval = 100 * time.Millisecond // on a terminal
	noteInterval = 2 * time.Second        // elsewhere
)

// progress shows how far the run is until ctx ends. size is that of the input in
// bytes, 0 if it is not known.
func (f *fleet) progress(ctx context.Context, size int64) {
	interval := noteInterval
	if f.out.fancyErr {
		interval = drawInterval
	}
	ticker := time.NewTicker(interval)
	defer ticker.Stop()
	began := time.Now()
	for {
		select {
		case <-ctx.Done():
			f.out.done()
			return
		case <-ticker.C:
		}
		if f.out.fancyErr {
			f.out.draw(f.bar(size, time.Since(began), f.out.width()))
		} else {
			f.out.note("%s", f.status(size, time.Since(began)))
		}
	}
}

// share is the part of the input that is settled.
func (f *fleet) share(size int64) float64 {
	if f.inputDone.Load() {
		return 1
	}
	events := f.count.events.Load()
	if size <= 0 || events == 0 {
		return 0
	}
	read := float64(f.count.bytes.Load()) / float64(size)
	return min(1, read*float64(f.count.settled.Load())/float64(events))
}

func (f *fleet) status(size int64, elapsed time.Duration) string {
	c := &f.count
	s := fmt.Sprintf("%s events, %s commits, %s delivered, %s/s",
		group(c.settled.Load()), group(c.commits.Load()), group(c.delivered.Load()),
		group(rate(c.settled.Load(), elapsed)))
	switch {
	case f.inputDone.Load():
		s += ", draining"
	case size > 0:
		s = fmt.Sprintf("%3.0f%%  %s", 100*f.share(size), s)
	}
	return s
}

// bar is the status with as much of a bar before it as the width has room for.
func (f *fleet) bar(size int64, elapsed time.Duration, width int) string {
	s := f.status(size, elapsed)
	cells := min(40, width-utf8.RuneCountInString(s)-4)
	if size > 0 && cells >= 8 {
		full := int(f.share(size)*float64(cells) + 0.5)
		return "[" + strings.Repeat("=", full) + strings.Repeat(" ", cells-full) + "] " + s
	}
	if len(s) >= width { // only ASCII in it
		s = s[:max(0, width-1)]
	}
	return s
}

func rate(n int64, d time.Duration) int64 {
	if d <= 0 {
		return 0
	}
	return int64(float64(n)/d.Seconds() + 0.5)
}
