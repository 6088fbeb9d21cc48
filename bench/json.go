package main

import (
	"encoding/json"
	"io"
	"math"
	"time"
)

// jsonLine is the machine-readable form of a result: one object per line. Fields
// that do not apply are left out.
type jsonLine struct {
	Engine  string `json:"engine"`
	Server  string `json:"server"`
	Mode    string `json:"mode"`
	Op      string `json:"op"`
	Callers int    `json:"callers"`

	OpsPerS float64 `json:"ops_per_s"`
	P50     float64 `json:"p50_ms"`
	P99     float64 `json:"p99_ms"`
	P999    float64 `json:"p999_ms"`
	Mean    float64 `json:"mean_ms"`
	Max     float64 `json:"max_ms"`

	Ratio        *float64 `json:"ratio,omitempty"`
	RatioTo      string   `json:"ratio_to,omitempty"`
	RatioCallers int      `json:"ratio_to_callers,omitempty"`

	RequestsPerOp float64  `json:"requests_per_op"`
	OpsPerRequest float64  `json:"ops_per_request,omitempty"`
	EntriesPerOp  *float64 `json:"entries_per_op,omitempty"` // of the replicated log
	BytesPerOp    float64  `json:"bytes_per_op"`             // of SQL text and parameters
	CPU           *float64 `json:"cpu_us_per_op,omitempty"`  // of this process
	AllocsPerOp   float64  `json:"allocs_per_op"`
	AllocBytes    float64  `json:"alloc_bytes_per_op"`

	Ops           uint64    `json:"ops"`
	Seconds       float64   `json:"measured_s"`
	Rounds        int       `json:"rounds"`
	RoundsOpsPerS []float64 `json:"rounds_ops_per_s"`
	Spread        float64   `json:"rounds_spread"` // (fastest-slowest)/average

	settings
}

// writeJSON writes one line per result.
func writeJSON(w io.Writer, s *settings, results []*result) error {
	enc := json.NewEncoder(w)
	enc.SetEscapeHTML(false)
	for _, r := range results {
		if err := enc.Encode(r.line(s)); err != nil {
			return err
		}
	}
	return nil
}

func (r *result) line(s *settings) *jsonLine {
	l := &jsonLine{
		Engine: s.engine, Server: s.server, Mode: r.mode.name, Op: string(r.op), Callers: r.callers,
		OpsPerS: round3(r.perSecond), P50: ms(r.p50), P99: ms(r.p99), P999: ms(r.p999),
		Mean: ms(r.latency.mean()), Max: ms(time.Duration(r.latency.max)),
		RequestsPerOp: round6(r.requests), BytesPerOp: round3(r.bytes),
		AllocsPerOp: round3(r.allocs), AllocBytes: round3(r.allocBytes),
		Ops: r.ops, Seconds: round6(r.window.Seconds()), Rounds: len(r.perRound), Spread: round3(r.spread()),
		settings: *s,
	}
	for _, v := range r.perRound {
		l.RoundsOpsPerS = append(l.RoundsOpsPerS, round3(v))
	}
	if r.requests > 0 {
		l.OpsPerRequest = round3(1 / r.requests)
	}
	if r.base != nil {
		ratio := round3(r.ratio)
		l.Ratio, l.RatioTo, l.RatioCallers = &ratio, r.base.mode.name, r.base.callers
	}
	if r.entries >= 0 {
		entries := round6(r.entries)
		l.EntriesPerOp = &entries
	}
	if r.cpu >= 0 {
		us := round3(float64(r.cpu) / 1e3)
		l.CPU = &us
	}
	return l
}

func ms(d time.Duration) float64 { return round6(float64(d) / 1e6) }

func round3(v float64) float64 { return math.Round(v*1e3) / 1e3 }
func round6(v float64) float64 { return math.Round(v*1e6) / 1e6 }
