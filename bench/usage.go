package main

import (
	"runtime/metrics"
	"time"
)

// usage is what this process has used so far.
type usage struct {
	at         time.Time
	cpu        time.Duration // user and system; negative if unknown
	allocs     uint64
	allocBytes uint64
}

func readUsage() usage {
	samples := []metrics.Sample{{Name: "/gc/heap/allocs:objects"}, {Name: "/gc/heap/allocs:bytes"}}
	metrics.Read(samples)
	return usage{at: time.Now(), cpu: processCPU(), allocs: samples[0].Value.Uint64(), allocBytes: samples[1].Value.Uint64()}
}
