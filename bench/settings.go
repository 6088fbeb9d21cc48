package main

import (
	"fmt"
	"os"
	"path/filepath"
	"runtime"
	"slices"
	"strconv"
	"strings"
	"time"
)

// settings are what numbers depend on. They go into every report.
type settings struct {
	engine string
	server string

	Date       string  `json:"date"`
	Go         string  `json:"go"`
	Platform   string  `json:"platform"`
	GOMAXPROCS int     `json:"gomaxprocs"`
	Load       float64 `json:"load_average,omitempty"` // of the machine, before the start
	Durability string  `json:"durability,omitempty"`   // of SQLite
	Fsync      float64 `json:"fsync_ms,omitempty"`     // median of the database's disk
	State      int     `json:"state_bytes"`
	IDs        int     `json:"ids"`
	Contended  bool    `json:"contended"`
	Duration   float64 `json:"duration_s"`
	Warmup     float64 `json:"warmup_s"`
	InFlight   int     `json:"in_flight"` // 0: the engine's default
	MaxBatch   int     `json:"max_batch"` // 0: the actor's default
	Seed       uint64  `json:"seed"`
}

func newSettings(cfg *config, b *backend) *settings {
	s := &settings{
		engine: b.engine, server: b.server,
		Date:       time.Now().UTC().Format(time.RFC3339),
		Go:         runtime.Version(),
		Platform:   runtime.GOOS + "/" + runtime.GOARCH,
		GOMAXPROCS: runtime.GOMAXPROCS(0),
		Durability: b.durability,
		State:      cfg.state, IDs: cfg.ids, Contended: cfg.contended,
		Duration: cfg.duration.Seconds(), Warmup: cfg.warmup.Seconds(),
		InFlight: cfg.inFlight, MaxBatch: cfg.maxBatch, Seed: cfg.seed,
	}
	s.Load = loadAverage()
	if b.engine == "sqlite" && b.path != ":memory:" {
		s.Fsync = ms(fsyncTime(filepath.Dir(b.path)))
	}
	return s
}

// lines are the settings for people, as pairs of a name and a text.
func (s *settings) lines(rounds int) [][2]string {
	host := fmt.Sprintf("%s, %s, GOMAXPROCS %d", s.Go, s.Platform, s.GOMAXPROCS)
	if s.Load > 0 {
		host += fmt.Sprintf("; load average of the last minute %.1f", s.Load)
		if s.Load > busy*float64(s.GOMAXPROCS) {
			host += ": others are at work here, so expect noise"
		}
	}
	out := [][2]string{
		{"engine", s.server},
		{"host", host},
		{"date", s.Date},
	}
	if s.Durability != "" {
		d := s.Durability
		if s.Fsync > 0 {
			d += fmt.Sprintf("; a write and fsync of 4 KiB on its disk takes %s ms (median)", milliseconds(s.Fsync))
		}
		out = append(out, [2]string{"durability", d})
	}
	data := fmt.Sprintf("%d executions for each mode, state of %d bytes, seed %d", s.IDs, s.State, s.Seed)
	if s.Contended {
		data += ", shared by all callers"
	} else {
		data += ", each caller has its own"
	}
	out = append(out,
		[2]string{"data", data},
		[2]string{"time", fmt.Sprintf("%gs for each line, in %d interleaved rounds, each after a warm-up of %gs", s.Duration, rounds, s.Warmup)})
	if s.InFlight > 0 || s.MaxBatch > 0 {
		var tuned []string
		if s.InFlight > 0 {
			tuned = append(tuned, fmt.Sprintf("%d requests in flight", s.InFlight))
		}
		if s.MaxBatch > 0 {
			tuned = append(tuned, fmt.Sprintf("batches of up to %d", s.MaxBatch))
		}
		out = append(out, [2]string{"tuning", strings.Join(tuned, ", ")})
	}
	return out
}

// busy is the load per processor from which on a machine counts as busy.
const busy = 0.7

// loadAverage returns how many processes of the machine were running or ready to
// run in the last minute, on average; zero where the system does not tell.
func loadAverage() float64 {
	raw, err := os.ReadFile("/proc/loadavg")
	if err != nil {
		return 0
	}
	first, _, _ := strings.Cut(string(raw), " ")
	v, err := strconv.ParseFloat(first, 64)
	if err != nil {
		return 0
	}
	return v
}

// fsyncTime returns the median time of a small write with fsync in dir; zero if
// it cannot be measured.
func fsyncTime(dir string) time.Duration {
	f, err := os.CreateTemp(dir, "fsync-")
	if err != nil {
		return 0
	}
	defer os.Remove(f.Name())
	defer f.Close()
	page := make([]byte, 4096)
	var times []time.Duration
	for range 21 {
		start := time.Now()
		if _, err := f.WriteAt(page, 0); err != nil {
			return 0
		}
		if err := f.Sync(); err != nil {
			return 0
		}
		times = append(times, time.Since(start))
	}
	slices.Sort(times)
	return times[len(times)/2]
}
