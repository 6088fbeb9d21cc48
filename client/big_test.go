package client

import (
	"math/big"
	"strconv"
	"strings"
)

// exactByBig returns the integer that a number is, or false if it has a fraction
// or is too long to tell cheaply.
func exactByBig(s string) (*big.Int, bool) {
	if i := strings.IndexAny(s, "eE"); i >= 0 {
		e, err := strconv.Atoi(s[i+1:])
		if err != nil {
			return nil, false
		}
		if e > 1000 || e < -1000 {
			if strings.Trim(s[:i], "-0.") == "" {
				return new(big.Int), true
			}
			if e > 0 {
				return new(big.Int).Lsh(big.NewInt(1), 200), true // out of range for sure
			}
			return nil, false
		}
	}
	r, ok := new(big.Rat).SetString(s)
	if !ok || !r.IsInt() {
		return nil, false
	}
	return r.Num(), true
}
