package main

import (
	"math"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

// TestHistogramQuantiles compares with sorted samples of several shapes.
func TestHistogramQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	shapes := map[string]func() float64{
		"uniform":     func() float64 { return rng.Float64() * 1e6 },
		"exponential": func() float64 { return rng.ExpFloat64() * 3e5 },
		"log-uniform": func() float64 { return math.Exp(rng.Float64() * 25) },
		"constant":    func() float64 { return 12345 },
		"tiny":        func() float64 { return float64(rng.IntN(70)) },
	}
	for name, draw := range shapes {
		for _, n := range []int{1, 2, 99, 20000} {
			var parts [3]histogram
			samples := make([]time.Duration, n)
			var sum float64
			for i := range samples {
				samples[i] = time.Duration(draw())
				sum += float64(samples[i])
				parts[i%3].record(samples[i], 1)
			}
			slices.Sort(samples)
			h := &histogram{}
			for i := range parts {
				h.merge(&parts[i])
			}
			for _, q := range []float64{0, 0.001, 0.5, 0.9, 0.99, 0.999, 1} {
				want := float64(samples[max(int(math.Ceil(q*float64(n))), 1)-1])
				got := float64(h.quantile(q))
				if math.Abs(got-want) > want/(2*subBuckets)+1 {
					t.Errorf("%s, %d samples: quantile %v is %v, want %v", name, n, q, got, want)
				}
			}
			if h.total != uint64(n) || h.max != uint64(samples[n-1]) {
				t.Errorf("%s: total %d, max %d", name, h.total, h.max)
			}
			if mean := float64(h.mean()); math.Abs(mean-sum/float64(n)) > 1 {
				t.Errorf("%s: mean %v, want %v", name, mean, sum/float64(n))
			}
		}
	}
}

// TestHistogramBuckets checks that buckets lie side by side without gaps, and
// that each holds the times that it says.
func TestHistogramBuckets(t *testing.T) {
	next := uint64(0)
	for i := range buckets {
		lo, hi := bucketBounds(i)
		if lo != next || hi < lo {
			t.Fatalf("bucket %d is [%d, %d], want it to begin at %d", i, lo, hi, next)
		}
		for _, v := range []uint64{lo, lo + (hi-lo)/2, hi} {
			if at := bucketOf(v); at != i {
				t.Fatalf("%d is in bucket %d, want %d", v, at, i)
			}
		}
		if lo > 0 && float64(hi-lo) > float64(lo)/subBuckets {
			t.Fatalf("bucket %d is [%d, %d], wider than promised", i, lo, hi)
		}
		next = hi + 1
	}
	if limit := time.Duration(next); limit < 4*time.Minute {
		t.Errorf("the last bucket ends at %v", limit)
	}
	if at := bucketOf(math.MaxUint64); at != buckets-1 {
		t.Errorf("the largest time is in bucket %d", at)
	}
}

func TestHistogramWeights(t *testing.T) {
	h := &histogram{}
	h.record(time.Millisecond, 99)
	h.record(time.Second, 1)
	h.record(-time.Second, 0) // a clock that jumped
	if got := h.quantile(0.99); got > 2*time.Millisecond {
		t.Errorf("p99 is %v", got)
	}
	if got := h.quantile(1); got < 990*time.Millisecond || got > time.Second {
		t.Errorf("the slowest took %v", got)
	}
	if got := (&histogram{}).quantile(0.5); got != 0 {
		t.Errorf("median of nothing is %v", got)
	}
}

func TestHistogramRecordDoesNotAllocate(t *testing.T) {
	h := &histogram{}
	if n := testing.AllocsPerRun(100, func() { h.record(1234*time.Microsecond, 1) }); n != 0 {
		t.Errorf("%v allocations", n)
	}
}
