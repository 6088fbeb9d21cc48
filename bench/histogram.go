package main

import (
	"math"
	"math/bits"
	"time"
)

// The buckets of a histogram: every power of two is cut into 64 equal parts, so
// a bucket is at most 1/64 of its value wide, and times up to four and a half
// minutes have one of their own.
const (
	subBits    = 6
	subBuckets = 1 << subBits
	maxShift   = 31
	buckets    = (maxShift + 2) * subBuckets
)

// histogram counts latencies. Recording takes a few nanoseconds and allocates
// nothing. It is not safe for concurrent use: each caller has its own, and they
// are merged at the end.
type histogram struct {
	counts [buckets]uint32
	total  uint64
	sum    float64 // in nanoseconds
	max    uint64
}

// bucketOf returns the bucket of a time in nanoseconds. Times beyond the last
// bucket are counted in it.
func bucketOf(ns uint64) int {
	if ns < subBuckets {
		return int(ns)
	}
	shift := bits.Len64(ns) - 1 - subBits
	if shift > maxShift {
		return buckets - 1
	}
	return shift<<subBits + int(ns>>shift)
}

// bucketBounds returns the smallest and the largest time of a bucket.
func bucketBounds(i int) (lo, hi uint64) {
	if i < subBuckets {
		return uint64(i), uint64(i)
	}
	shift := i>>subBits - 1
	lo = uint64(i-shift<<subBits) << shift
	return lo, lo + 1<<shift - 1
}

// record counts n operations that took d each.
func (h *histogram) record(d time.Duration, n int) {
	ns := uint64(max(d, 0))
	h.counts[bucketOf(ns)] += uint32(n)
	h.total += uint64(n)
	h.sum += float64(ns) * float64(n)
	h.max = max(h.max, ns)
}

// merge adds what another histogram has counted.
func (h *histogram) merge(other *histogram) {
	for i, n := range other.counts {
		h.counts[i] += n
	}
	h.total += other.total
	h.sum += other.sum
	h.max = max(h.max, other.max)
}

// quantile returns the time that a share q of the operations did not exceed, to
// within 1/128 of it; zero if nothing was counted.
func (h *histogram) quantile(q float64) time.Duration {
	if h.total == 0 {
		return 0
	}
	rank := uint64(math.Ceil(q * float64(h.total)))
	rank = min(max(rank, 1), h.total)
	var seen uint64
	for i, n := range h.counts {
		if seen += uint64(n); seen >= rank {
			lo, hi := bucketBounds(i)
			return time.Duration(min(lo+(hi-lo)/2, h.max))
		}
	}
	return time.Duration(h.max)
}

// mean returns the mean time; zero if nothing was counted.
func (h *histogram) mean() time.Duration {
	if h.total == 0 {
		return 0
	}
	return time.Duration(h.sum / float64(h.total))
}
