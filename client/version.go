package client

import (
	"strconv"
	"strings"
)

// version is a server's version. The zero value means unknown, which is taken
// for new: every server since version 7 says its version in each answer.
type version struct{ major, minor, patch int }

var (
	// linearizableSince: the level came with 8.32.0 and was right from here on.
	// Older servers take a level they do not know for weak.
	linearizableSince = version{8, 32, 4}

	// rollbackSince: before it a failing statement with RETURNING did not always
	// undo the statements before it.
	rollbackSince = version{9, 4, 2}
)

// parseVersion reads what a server says, such as "v8.32.4", "9.1" or "10". It
// returns the zero version for anything else.
func parseVersion(s string) version {
	s = strings.TrimPrefix(strings.TrimSpace(s), "v")
	if i := strings.IndexAny(s, "-+ "); i >= 0 {
		s = s[:i]
	}
	var v version
	parts := strings.SplitN(s, ".", 4)
	for i, dst := range []*int{&v.major, &v.minor, &v.patch} {
		if i == len(parts) {
			break
		}
		n, err := strconv.Atoi(parts[i])
		if err != nil || n < 0 {
			return version{}
		}
		*dst = n
	}
	return v
}

// before reports whether v is known and older than w.
func (v version) before(w version) bool {
	switch {
	case v == version{}:
		return false
	case v.major != w.major:
		return v.major < w.major
	case v.minor != w.minor:
		return v.minor < w.minor
	}
	return v.patch < w.patch
}
